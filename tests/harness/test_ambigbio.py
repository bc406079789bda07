"""AmbigBio through lm_eval: prompts, the judge as a filter, the same scores from saved samples."""

from __future__ import annotations

import json
import re
import sqlite3
from functools import partialmethod
from pathlib import Path

import pytest

from lm_factuality.benchmarks.biographies.decompose import response_sentences
from lm_factuality.benchmarks.biographies.task import make_prompt
from lm_factuality.cli.main import main
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.harness.samples import verdict_of

ROWS = [
    {
        "question": f"Tell me a bio of {name}",
        "docs": [
            {
                "title": f"{name} (painter)",
                "text": f"{name} (1900–1980) was a painter. She taught at the Harbour School.",
            },
            {
                "title": f"{name} (pilot)",
                "text": f"{name} (born 1955) is a pilot. She flew mail to the northern islands.",
            },
        ],
    }
    for name in ("Ada Lind", "Bea Holm", "Ada Lind")
]
ANSWER = "She was a painter [1]. She taught at the Harbour School [1]. She flew mail to the northern islands [2]."


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch) -> None:
    """Give the test an empty folder for the answers of judges."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))


@pytest.fixture
def data(tmp_path) -> Path:
    """Return a file with `ROWS` in the authors' format."""
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"data": ROWS}), encoding="utf-8")
    return path


@pytest.fixture
def run(data, tmp_path, monkeypatch):
    """Return a function that runs a task on `ROWS`, and returns the exit code.

    The model gives `ANSWER` to every prompt, and the lexical judge judges it. The function takes
    settings of the task: ``run("ambigbio_both", linking="hungarian")``.
    """
    from lm_eval.tasks import TaskManager

    monkeypatch.setattr(
        TaskManager, "__init__", partialmethod(TaskManager.__init__, include_defaults=False)
    )

    def run_task(task: str = "ambigbio", answer: str = ANSWER, **metadata) -> int:
        all_metadata = {"generations": str(data), "judge": "lexical", **metadata}
        return main(
            [
                "run",
                *("--model", "constant-answer"),
                *("--model_args", json.dumps({"answer": answer})),
                *("--tasks", task),
                *("--output_path", str(tmp_path / "out")),
                *("--metadata", json.dumps(all_metadata)),
                "--log_samples",
            ]
        )

    return run_task


def newest(folder: Path, pattern: str) -> Path:
    """Return the newest file below a folder whose name, which ends in a time, matches a pattern."""
    return max(folder.rglob(pattern))


def read_results(folder: Path) -> dict:
    """Return the newest results that lm_eval wrote below a folder."""
    return json.loads(newest(folder, "results_*.json").read_text(encoding="utf-8"))


def test_a_run_has_the_scores_of_the_paper(run, tmp_path):
    # One biography of two people: all three facts are true of somebody, but two of them of the
    # painter, to whom the biography is linked, and the third of the pilot.
    assert run(linking="hungarian") == 0

    metrics = read_results(tmp_path / "out")["results"]["ambigbio"]
    assert metrics["factscore,judge"] == 1
    assert metrics["d_factscore,judge"] == pytest.approx(2 / 3)
    assert metrics["difference,judge"] == pytest.approx(1 - 2 / 3)
    assert metrics["num_biographies,judge"] == 1
    assert metrics["num_entities,judge"] == 2
    assert metrics["one_bio_many_entities,judge"] == 1
    assert metrics["respond_ratio,judge"] == 1
    assert metrics["unscored,judge"] == 0
    assert metrics["d_factscore_stderr,judge"] == 0


def test_results_say_how_they_were_judged(run, tmp_path):
    assert run(linking="hungarian") == 0

    metadata = read_results(tmp_path / "out")["configs"]["ambigbio"]["metadata"]
    assert "Judged by word overlap, not by a model" in metadata["caution"]
    assert metadata["knowledge"] == "documents"
    assert metadata["linking"] == "hungarian"
    assert metadata["demonstrations"] == "ambiguous"
    assert metadata["data"]["is_published"] is False
    assert "generations" not in metadata
    assert set(metadata["judge_config"]["prompt_hashes"]) == {
        "biographies/decompose",
        "biographies/group",
        "biographies/verify",
        "biographies/verify_page",
        "biographies/verify_true_false",
    }


def test_saved_samples_have_the_scores_of_the_run(run, tmp_path):
    assert run(linking="hungarian") == 0
    metrics = read_results(tmp_path / "out")["results"]["ambigbio"]
    samples = newest(tmp_path / "out", "samples_*.jsonl")
    judged = tmp_path / "judged"

    options = ["--samples", str(samples), "--judge", "lexical", "--out", str(judged)]
    exit_code = main(["judge", "ambigbio", *options])

    assert exit_code == 0
    judged_metrics = json.loads((judged / "metrics.json").read_text(encoding="utf-8"))
    for name in (
        "factscore",
        "factscore_penalised",
        "d_factscore",
        "difference",
        "num_entities",
        "respond_ratio",
    ):
        assert judged_metrics[name]["value"] == metrics[f"{name},judge"]
    assert judged_metrics["d_factscore"]["worst"] == metrics["d_factscore_worst,judge"]
    verdicts = (judged / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(verdicts) == len(ROWS)


@pytest.mark.parametrize("task", ["ambigbio", "ambigbio_no_ambig"])
def test_an_answer_that_declines_counts_in_the_respond_ratio_only(run, tmp_path, task):
    assert run("ambigbio_both", answer="I'm sorry, I cannot say which one you mean.") == 0

    metrics = read_results(tmp_path / "out")["results"][task]
    assert metrics["respond_ratio,judge"] == 0
    assert metrics["unscored,judge"] == 0
    assert metrics["factscore,judge"] == "N/A"


@pytest.fixture
def evaluate_ambigbio(evaluate, data):
    """Return a function that evaluates a task on `ROWS`, and returns lm_eval's output.

    It takes settings of the task: ``evaluate_ambigbio(linking="greedy")``.
    """

    def run_task(task: str = "ambigbio", **metadata):
        return evaluate(
            "constant-answer",
            [task],
            model_args={"answer": ANSWER},
            metadata={"generations": str(data), "judge": "lexical", **metadata},
        )

    return run_task


def test_a_prompt_has_two_demonstrations_before_the_question(evaluate_ambigbio):
    output = evaluate_ambigbio()

    prompt, _ = output["samples"]["ambigbio"][0]["arguments"][0]
    *demonstrations, question = prompt.split("Instruction: ")[1:]
    assert len(demonstrations) == 2
    for demonstration in demonstrations:
        assert demonstration.count("Document [") == 5
        assert "[1]" in demonstration.split("Answer:")[1]
    assert "Document [2] (Title: Ada Lind (pilot)) Ada Lind (born 1955)" in question
    assert question.endswith("Name of the person: Ada Lind\n\nAnswer:")


def test_answers_are_sampled_as_in_the_paper(evaluate_ambigbio):
    output = evaluate_ambigbio()

    _, settings = output["samples"]["ambigbio"][0]["arguments"][0]
    assert settings["do_sample"] is True
    assert settings["temperature"] == 1.0
    assert settings["top_p"] == 0.95


def read_demonstrations(kind: str) -> list[dict]:
    """Return the demonstrations in prompts, of the kind "ambiguous" or "unambiguous"."""
    path = tasks_folder() / "ambigbio" / "demonstrations.json"
    return json.loads(path.read_text(encoding="utf-8"))[kind]


def titles_of_bearers(demonstration: dict) -> set[str]:
    """Return the titles of the passages on people who bear the name of a demonstration.

    "Ann Lee (poet)" and "Ann J. Lee" bear the name "Ann Lee".
    """
    titles = [passage["title"] for passage in demonstration["passages"]]
    return {
        title
        for title in titles
        if title.split(" (")[0].replace("J. ", "") == demonstration["name"]
    }


def cited_numbers(demonstration: dict) -> set[int]:
    """Return the numbers of the passages that the answer cites, such as 2 for "[2]"."""
    return {int(number) for number in re.findall(r"\[(\d+)\]", demonstration["answer"])}


@pytest.mark.parametrize(("kind", "is_ambiguous"), [("ambiguous", True), ("unambiguous", False)])
def test_a_demonstration_has_several_bearers_of_the_name_if_it_is_ambiguous(kind, is_ambiguous):
    demonstrations = read_demonstrations(kind)

    assert len(demonstrations) == 2
    for demonstration in demonstrations:
        assert (len(titles_of_bearers(demonstration)) > 1) == is_ambiguous


@pytest.mark.parametrize("kind", ["ambiguous", "unambiguous"])
def test_the_answer_of_a_demonstration_cites_one_bearer_of_the_name(kind):
    for demonstration in read_demonstrations(kind):
        numbers = cited_numbers(demonstration)
        cited_titles = {demonstration["passages"][number - 1]["title"] for number in numbers}
        sentences = demonstration["answer"].split(". ")

        assert numbers <= {1, 2, 3, 4, 5}
        assert len(cited_titles & titles_of_bearers(demonstration)) == 1
        assert all("[" in sentence for sentence in sentences[:-1])
        assert len(response_sentences(demonstration["answer"])) >= 4


@pytest.mark.parametrize("kind", ["ambiguous", "unambiguous"])
def test_a_prompt_with_demonstrations_ends_where_the_answer_begins(kind):
    prompt = make_prompt({"demonstrations": kind}).render({"name": "X", "passages": []})

    assert prompt.endswith("Answer:")


@pytest.fixture
def authors_repository(tmp_path) -> Path:
    """Return a folder with two of the authors' prompt files, "no_ambig" and "careful".

    Each has three demonstrations, on A, B and C.
    """
    folder = tmp_path / "theirs" / "ALCE" / "AmbigBio_prompts"
    folder.mkdir(parents=True)
    content = {
        "demo_sep": "\n\n",
        "demo_prompt": "{INST} {Q}\n{D}Answer: {A}",
        "doc_prompt": "[{ID}] {T}: {P}\n",
        "demos": [
            {"question": name, "answer": f"{name}.", "docs": [{"title": name, "text": "x"}]}
            for name in "ABC"
        ],
    }
    for name in ("no_ambig", "careful"):
        path = folder / f"AmbigBio_default_{name}.json"
        path.write_text(json.dumps({"instruction": name, **content}))
    return tmp_path / "theirs"


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        pytest.param({}, "no_ambig", id="default"),
        pytest.param({"prompt": "careful"}, "careful", id="named"),
    ],
)
def test_the_authors_prompts_can_be_chosen(
    evaluate_ambigbio, authors_repository, tmp_path, setting, name
):
    output = evaluate_ambigbio("ambigbio_no_ambig", prompts=str(authors_repository), **setting)

    prompt = output["samples"]["ambigbio_no_ambig"][0]["doc"]["text"]
    metadata = output["configs"]["ambigbio_no_ambig"]["metadata"]
    assert prompt.startswith(f"{name} A\n[1] A: x\nAnswer:A.\n\n{name} B")
    assert metadata["prompts"] == "authors"
    assert metadata["prompt"] == name
    assert metadata["demonstrations"] == "authors"
    assert len(metadata["prompt_hashes"]["authors"]) == 16
    assert str(tmp_path) not in json.dumps(metadata)


@pytest.mark.parametrize(
    ("metadata", "error", "message"),
    [
        ({"linking": "best"}, ConfigError, "linking is 'best'; expected 'greedy' or 'hungarian'"),
        ({"demonstrations": "none"}, ConfigError, "demonstrations is 'none'"),
        ({"prompts": "/nowhere"}, ConfigError, "AmbigBio_default_with_ambig.json: no such file"),
        ({"prompt": "careful"}, ConfigError, "add prompts=DIR"),
        ({"generations": "nowhere.json"}, DataError, "nowhere.json: no such file"),
        ({"knowledge": "nowhere.sqlite"}, DataError, "nowhere.sqlite"),
        ({"judge": "nobody"}, ConfigError, "nobody"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_setting_is_refused(metadata, error, message, evaluate_ambigbio):
    with pytest.raises(error, match=message):
        evaluate_ambigbio(**metadata)


def test_a_knowledge_source_is_used_and_named(evaluate_ambigbio, tmp_path):
    path = tmp_path / "pages.db"
    titles = {document["title"] for row in ROWS for document in row["docs"]}
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE documents (title PRIMARY KEY, text)")
        connection.executemany(
            "INSERT INTO documents VALUES (?, 'A page about bridges.')",
            [(title,) for title in titles],
        )

    output = evaluate_ambigbio(knowledge=str(path))

    # One of three facts is supported, by a title: "Ada Lind (painter)".
    assert output["results"]["ambigbio"]["factscore,judge"] == pytest.approx(1 / 3)
    assert output["configs"]["ambigbio"]["metadata"]["knowledge"] == "pages.db"


def test_a_verdict_is_kept_with_the_text_that_a_model_generated(evaluate, checkpoint, data):
    output = evaluate(
        "hf",
        ["ambigbio"],
        model_args={"pretrained": str(checkpoint), "dtype": "float32"},
        limit=1,
        metadata={"generations": str(data), "judge": "lexical"},
        gen_kwargs={"max_gen_toks": 12},
    )

    (sample,) = output["samples"]["ambigbio"]
    assert verdict_of(sample)["generation"]["output"] == sample["resps"][0][0]
