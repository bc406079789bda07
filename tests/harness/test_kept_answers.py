"""Answers of a model are kept until the results are saved, and no wrong one is reused."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from lm_factuality.ground.errors import DataError
from lm_factuality.harness import progress
from lm_factuality.harness.kept_answers import AnswerFile, identity_of, keep_answers

GREEDY = {"max_gen_toks": 5}
SAMPLED = {"max_gen_toks": 5, "do_sample": True}


class CountingModel(LM):
    """A model that numbers its texts, and that is interrupted at a request."""

    batch_size = 2

    def __init__(self, interrupted_at: int | None = None) -> None:
        """Set the number of the request at which the user presses Ctrl-C."""
        super().__init__()
        self.prompts: list[str] = []
        self._interrupted_at = interrupted_at

    def generate_until(self, requests):
        """Write a numbered text for each request."""
        texts = []
        for request in requests:
            if len(self.prompts) == self._interrupted_at:
                raise KeyboardInterrupt
            self.prompts.append(request.args[0])
            texts.append(f"text {len(self.prompts)}")
        return texts

    def loglikelihood(self, requests):
        """Score each continuation by its length."""
        self.prompts += [request.args[0] for request in requests]
        return [(-float(len(request.args[1])), False) for request in requests]

    loglikelihood_rolling = loglikelihood


@pytest.fixture
def answers_path(tmp_path) -> Path:
    """Return the path of a file of answers."""
    return tmp_path / "kept.sqlite"


def generate(model: LM, answers: AnswerFile, *prompts: str, generation=GREEDY) -> list[str]:
    """Have a model write texts while its answers are kept in a file."""
    requests = [Instance("", {}, (prompt, generation), 0) for prompt in prompts]
    with keep_answers(model, answers):
        return model.generate_until(requests)


def test_continued_run_sends_only_unanswered_requests(answers_path):
    """The model answers in batches of two, and was interrupted in the batch of c and d."""
    interrupted = CountingModel(interrupted_at=3)
    with pytest.raises(KeyboardInterrupt):
        generate(interrupted, AnswerFile(answers_path), "a", "b", "c", "d")
    continued = CountingModel()

    texts = generate(continued, AnswerFile(answers_path), "a", "b", "c", "d")

    assert interrupted.prompts == ["a", "b", "c"]
    assert continued.prompts == ["c", "d"]
    assert texts == ["text 1", "text 2", "text 1", "text 2"]


def test_equal_greedy_requests_are_sent_once(answers_path):
    """A model that does not sample gives the same text to equal requests."""
    model = CountingModel()

    texts = generate(model, AnswerFile(answers_path), "a", "a")

    assert texts == ["text 1", "text 1"]
    assert model.prompts == ["a"]


class DrawingModel(CountingModel):
    """A model that draws its texts, in a folder of its own."""

    def __init__(self, folder: str) -> None:
        """Name the folder of the checkpoint."""
        super().__init__()
        self.pretrained = folder

    def generate_until(self, requests):
        """Draw a number for each request."""
        return [str(torch.rand(1).item()) for _ in requests]


def test_samples_do_not_depend_on_the_folder_of_the_checkpoint(tmp_path):
    """Others can repeat a result whose samples were drawn with a seed."""
    prompts = ("a", "a", "b")
    model = DrawingModel(folder="here")
    copy_of_model = DrawingModel(folder="there")

    samples = generate(model, AnswerFile(tmp_path / "a.sqlite"), *prompts, generation=SAMPLED)
    samples_of_copy = generate(
        copy_of_model, AnswerFile(tmp_path / "b.sqlite"), *prompts, generation=SAMPLED
    )

    assert samples_of_copy == samples
    assert len(set(samples)) == 3


def test_database_from_another_program_is_refused(answers_path):
    """Writing into it could destroy what it holds."""
    with closing(sqlite3.connect(answers_path)) as database:
        database.execute("CREATE TABLE notes (text TEXT)")

    with pytest.raises(DataError, match="but not of models' answers; name another file"):
        AnswerFile(answers_path)


def test_every_sample_of_a_prompt_is_saved(answers_path):
    """The first run draws three samples of the prompt, and the next one wants four."""
    first_model = CountingModel()
    second_model = CountingModel()

    three_samples = generate(
        first_model, AnswerFile(answers_path), "a", "a", "a", generation=SAMPLED
    )
    four_samples = generate(
        second_model, AnswerFile(answers_path), "a", "a", "a", "a", generation=SAMPLED
    )

    assert three_samples == ["text 1", "text 2", "text 3"]
    assert four_samples == ["text 1", "text 2", "text 3", "text 1"]
    assert second_model.prompts == ["a"]  # it writes the fourth sample, which is its first text


def test_scores_of_a_model_without_tokens_are_saved(answers_path):
    """This model scores a continuation by its length: " word" has five characters."""
    requests = [Instance("", {}, ("context", " word"), 0)]
    model = CountingModel()

    with keep_answers(model, AnswerFile(answers_path)):
        scores = [model.loglikelihood(requests) for _ in range(2)]

    assert scores == [[(-5.0, False)]] * 2
    assert model.prompts == ["context"]


@pytest.mark.parametrize(
    "generation", [{"max_gen_toks": 6}, {"max_gen_toks": 5, "until": ["."]}], ids=str
)
def test_changed_generation_arguments_use_separate_answers(answers_path, generation):
    """A longer limit, or another stop text, changes what a model writes."""
    generate(CountingModel(), AnswerFile(answers_path), "a")
    model = CountingModel()

    generate(model, AnswerFile(answers_path), "a", generation=generation)

    assert model.prompts == ["a"]


@pytest.mark.parametrize(
    "settings",
    [
        {"model_args": {"model": "b"}},
        {"model_args": {"model": "a", "dtype": "float16"}},
        {"model_args": {"model": "a"}, "seed": [1]},
    ],
    ids=str,
)
def test_different_models_use_separate_answers(answers_path, settings):
    """lm_eval's own cache does not know which model answered."""
    generate(CountingModel(), AnswerFile(answers_path, {"model_args": {"model": "a"}}), "a")
    model = CountingModel()

    generate(model, AnswerFile(answers_path, settings), "a")

    assert model.prompts == ["a"]


def test_changed_batch_size_reuses_saved_answers(answers_path):
    """How many requests run at a time does not change their answers."""
    arguments = {"model": "a", "batch_size": 8, "num_concurrent": 4}
    generate(CountingModel(), AnswerFile(answers_path, {"model_args": arguments}), "a")
    model = CountingModel()

    generate(model, AnswerFile(answers_path, {"model_args": {"model": "a"}}), "a")

    assert model.prompts == []


def test_answers_about_images_are_not_saved(answers_path):
    """An image is not part of the text by which answers are found."""
    request = Instance("", {}, ("a", GREEDY, {"visual": [object()]}), 0)
    model = CountingModel()

    with keep_answers(model, AnswerFile(answers_path)):
        for _ in range(2):
            model.generate_until([request])

    assert model.prompts == ["a", "a"]


def test_fresh_run_sends_all_requests_again(answers_path):
    """A server may have changed the model under the same name."""
    generate(CountingModel(), AnswerFile(answers_path), "a")
    model = CountingModel()

    generate(model, AnswerFile(answers_path, is_fresh=True), "a")

    assert model.prompts == ["a"]


def test_changed_api_key_reuses_saved_answers(answers_path):
    """The key decides who pays for an answer, but not what the model answers."""
    answers_with_first_key = AnswerFile(answers_path, {"model_args": {"api_key_env": "FIRST"}})
    answers_with_second_key = AnswerFile(answers_path, {"model_args": {"api_key_env": "SECOND"}})
    generate(CountingModel(), answers_with_first_key, "a")
    later_model = CountingModel()

    generate(later_model, answers_with_second_key, "a")

    assert later_model.prompts == []


class SlowModel(CountingModel):
    """A model that takes 0.3 seconds for all texts together."""

    def generate_until(self, requests):
        """Write a numbered text for each request."""
        time.sleep(0.3)
        return super().generate_until(requests)


@pytest.fixture
def generate_with_progress(monkeypatch, caplog):
    """Return a function that works as `generate`, and returns the log of its progress.

    The progress is reported for the first time after 0.1 seconds.
    """
    monkeypatch.setattr(progress, "_FIRST_REPORT", 0.1)
    monkeypatch.setattr(progress, "logger", logging.getLogger("test"))

    def generate_texts(model: LM, answers: AnswerFile, *prompts: str) -> str:
        requests = [Instance("", {}, (prompt, GREEDY), 0) for prompt in prompts]
        with (
            caplog.at_level(logging.INFO, "test"),
            keep_answers(model, answers),
            progress.reported_requests(model, len(requests), "texts"),
        ):
            model.generate_until(requests)
        return caplog.text

    return generate_texts


def test_progress_does_not_count_saved_answers(answers_path, generate_with_progress):
    """The rate of answers would otherwise be too high, and the remaining time too short."""
    generate(SlowModel(), AnswerFile(answers_path), "a", "b")

    log = generate_with_progress(SlowModel(), AnswerFile(answers_path), "a", "b", "c")

    assert "texts: none of 1 request answered" in log


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """Return the folder for files of the user, which is empty."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_finished_run_does_not_delete_answers_of_other_runs(home):
    """Another run may have been interrupted, and needs its answers to continue."""
    generate(CountingModel(), AnswerFile(), "of another run")
    answers = AnswerFile()
    generate(CountingModel(), answers, "a")

    answers.finish()

    later_model = CountingModel()
    generate(later_model, AnswerFile(), "of another run", "a")
    assert later_model.prompts == ["a"]


def test_answers_are_deleted_after_30_days(home):
    """Runs that are never continued would fill the disk."""
    generate(CountingModel(), AnswerFile(), "a")
    with closing(sqlite3.connect(home / "model_answers.sqlite")) as database, database:
        database.execute("UPDATE answers SET time = time - 31 * 24 * 60 * 60")
    model = CountingModel()

    generate(model, AnswerFile(), "a")

    assert model.prompts == ["a"]


def test_answers_in_a_user_named_file_are_never_deleted(answers_path):
    """The user has asked for this file, so only they delete it."""
    answers = AnswerFile(answers_path)
    generate(CountingModel(), answers, "a")

    answers.finish()

    model = CountingModel()
    generate(model, AnswerFile(answers_path), "a")
    assert model.prompts == []


@pytest.fixture
def checkpoint(tmp_path, monkeypatch) -> Path:
    """Return the folder of a checkpoint, which is in the working directory."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    monkeypatch.chdir(tmp_path)
    return folder


def identity(checkpoint: object) -> str:
    """Return the identity of a model with a checkpoint."""
    return identity_of(CountingModel(), {"model_args": {"pretrained": str(checkpoint)}})


def test_relative_checkpoint_path_reuses_saved_answers(checkpoint):
    """A run may be continued from another folder."""
    assert identity("checkpoint") == identity(checkpoint)


def test_checkpoint_with_new_weights_uses_separate_answers(checkpoint):
    """A model in training keeps its folder, and its old answers would be wrong."""
    before = identity(checkpoint)

    os.utime(checkpoint / "model.safetensors", (0, 0))

    assert identity(checkpoint) != before
