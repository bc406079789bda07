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
"""Three questions, each with a passage on a painter and one on a pilot of the same name."""

ANSWER = (
    "She was a painter [1]. She taught at the Harbour School [1]. She flew mail to the northern"
    " islands [2]."
)
"""An answer that mixes up two people: two facts about the painter, and one about the pilot."""


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
    """Return a function that runs a task on `ROWS`, and returns lm_eval's results file.

    The model gives `ANSWER` to every prompt, and the lexical judge judges it. The function takes
    settings of the task: ``run("ambigbio_both", linking="hungarian")``.
    """
    from lm_eval.tasks import TaskManager

    monkeypatch.setattr(
        TaskManager, "__init__", partialmethod(TaskManager.__init__, include_defaults=False)
    )

    def run_task(task: str = "ambigbio", answer: str = ANSWER, **metadata) -> dict:
        all_metadata = {"generations": str(data), "judge": "lexical", **metadata}
        exit_code = main(
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
        assert exit_code == 0
        results_path = newest(tmp_path / "out", "results_*.json")
        return json.loads(results_path.read_text(encoding="utf-8"))

    return run_task


def newest(folder: Path, pattern: str) -> Path:
    """Return the newest file below a folder whose name, which ends in a time, matches a pattern."""
    return max(folder.rglob(pattern))


def test_merged_people_lower_d_factscore_but_not_factscore(run):
    """Each answer has three facts of one biography: two of the painter, one of a namesake."""
    results = run(linking="hungarian")

    metrics = results["results"]["ambigbio"]
    assert metrics["factscore,judge"] == 1
    assert metrics["d_factscore,judge"] == pytest.approx(2 / 3)
    assert metrics["difference,judge"] == pytest.approx(1 - 2 / 3)
    assert metrics["num_biographies,judge"] == 1
    assert metrics["num_entities,judge"] == 2
    assert metrics["one_bio_many_entities,judge"] == 1
    assert metrics["respond_ratio,judge"] == 1
    assert metrics["unscored,judge"] == 0
    assert metrics["d_factscore_stderr,judge"] == 0


def test_results_say_how_they_were_judged(run):
    """Scores can be compared only if settings and prompts of the judge are the same."""
    results = run(linking="hungarian")

    metadata = results["configs"]["ambigbio"]["metadata"]
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


def test_judging_saved_samples_gives_the_scores_of_the_run(run, tmp_path):
    """``lm-factuality judge`` on a run's samples must come to the numbers of the run itself."""
    results = run(linking="hungarian")
    samples = newest(tmp_path / "out", "samples_*.jsonl")
    judged = tmp_path / "judged"

    options = ["--samples", str(samples), "--judge", "lexical", "--out", str(judged)]
    exit_code = main(["judge", "ambigbio", *options])

    assert exit_code == 0
    metrics = results["results"]["ambigbio"]
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
def test_declining_answer_counts_only_in_the_respond_ratio(run, task):
    """A model that says it cannot answer states no fact, so there is nothing to score."""
    results = run("ambigbio_both", answer="I'm sorry, I cannot say which one you mean.")

    metrics = results["results"][task]
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
    """As in the paper, a demonstration has five passages and an answer that cites them."""
    output = evaluate_ambigbio()

    first_sample = output["samples"]["ambigbio"][0]
    prompt, _ = first_sample["arguments"][0]
    *demonstrations, question = prompt.split("Instruction: ")[1:]
    assert len(demonstrations) == 2
    for demonstration in demonstrations:
        passages, answer = demonstration.split("Answer:")
        assert passages.count("Document [") == 5
        assert "[1]" in answer
    assert "Document [2] (Title: Ada Lind (pilot)) Ada Lind (born 1955)" in question
    assert question.endswith("Name of the person: Ada Lind\n\nAnswer:")


def test_answers_are_sampled_as_in_the_paper(evaluate_ambigbio):
    """The values are those of appendix A of the paper."""
    output = evaluate_ambigbio()

    first_sample = output["samples"]["ambigbio"][0]
    _, generation_settings = first_sample["arguments"][0]
    assert generation_settings["do_sample"] is True
    assert generation_settings["temperature"] == 1.0
    assert generation_settings["top_p"] == 0.95


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
def test_ambiguous_demonstration_has_passages_about_several_namesakes(kind, is_ambiguous):
    """The two kinds differ in whether several passages are about people of one name."""
    demonstrations = read_demonstrations(kind)

    assert len(demonstrations) == 2
    for demonstration in demonstrations:
        assert (len(titles_of_bearers(demonstration)) > 1) == is_ambiguous


@pytest.mark.parametrize("kind", ["ambiguous", "unambiguous"])
def test_demonstration_answer_cites_only_one_namesake(kind):
    """A model that follows the demonstrations writes about one person."""
    for demonstration in read_demonstrations(kind):
        numbers = cited_numbers(demonstration)
        cited_titles = {demonstration["passages"][number - 1]["title"] for number in numbers}
        cited_bearers = cited_titles & titles_of_bearers(demonstration)

        assert numbers <= {1, 2, 3, 4, 5}
        assert len(cited_bearers) == 1


@pytest.mark.parametrize("kind", ["ambiguous", "unambiguous"])
def test_demonstration_answer_has_four_sentences_with_citations(kind):
    """Models copy the length and the form of the demonstrations."""
    for demonstration in read_demonstrations(kind):
        sentences = demonstration["answer"].split(". ")

        assert all("[" in sentence for sentence in sentences)
        assert len(response_sentences(demonstration["answer"])) >= 4


@pytest.mark.parametrize("kind", ["ambiguous", "unambiguous"])
def test_prompt_with_demonstrations_ends_with_the_answer_label(kind):
    """White space at the end would change the tokens with which a base model goes on."""
    task_prompt = make_prompt({"demonstrations": kind})

    prompt = task_prompt.render({"name": "X", "passages": []})

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
        # The default belongs to the task, whose demonstrations are unambiguous.
        pytest.param({}, "no_ambig", id="default"),
        pytest.param({"prompt": "careful"}, "careful", id="named"),
    ],
)
def test_the_authors_prompts_can_be_chosen(evaluate_ambigbio, authors_repository, setting, name):
    """The authors draw two of the three demonstrations in their file at random: A and B."""
    output = evaluate_ambigbio("ambigbio_no_ambig", prompts=str(authors_repository), **setting)

    first_sample = output["samples"]["ambigbio_no_ambig"][0]
    instruction = name  # the instruction of each prompt file is its name
    first_demonstration = f"{instruction} A\n[1] A: x\nAnswer:A.\n\n"
    assert first_sample["doc"]["text"].startswith(f"{first_demonstration}{instruction} B")


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        pytest.param({}, "no_ambig", id="default"),
        pytest.param({"prompt": "careful"}, "careful", id="named"),
    ],
)
def test_results_name_the_authors_prompt_by_its_hash(
    evaluate_ambigbio, authors_repository, setting, name
):
    """Two runs are compared only if they had the same prompt."""
    output = evaluate_ambigbio("ambigbio_no_ambig", prompts=str(authors_repository), **setting)

    metadata = output["configs"]["ambigbio_no_ambig"]["metadata"]
    assert metadata["prompts"] == "authors"
    assert metadata["prompt"] == name
    assert metadata["demonstrations"] == "authors"
    assert len(metadata["prompt_hashes"]["authors"]) == 16


def test_results_do_not_hold_the_folder_of_the_authors_prompts(
    evaluate_ambigbio, authors_repository
):
    """The folder differs from machine to machine, and its name may be private."""
    output = evaluate_ambigbio("ambigbio_no_ambig", prompts=str(authors_repository))

    metadata = output["configs"]["ambigbio_no_ambig"]["metadata"]
    assert str(authors_repository.parent) not in json.dumps(metadata)


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
    """The error comes before the model answers, and names the wrong value or the missing file."""
    with pytest.raises(error, match=message):
        evaluate_ambigbio(**metadata)


def test_knowledge_source_replaces_the_documents_and_is_recorded(evaluate_ambigbio, tmp_path):
    """All pages are about bridges, so only the title "Ada Lind (painter)" supports a fact."""
    path = tmp_path / "pages.db"
    titles = {document["title"] for row in ROWS for document in row["docs"]}
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE documents (title PRIMARY KEY, text)")
        connection.executemany(
            "INSERT INTO documents VALUES (?, 'A page about bridges.')",
            [(title,) for title in titles],
        )

    output = evaluate_ambigbio(knowledge=str(path))

    assert output["results"]["ambigbio"]["factscore,judge"] == pytest.approx(1 / 3)
    assert output["configs"]["ambigbio"]["metadata"]["knowledge"] == "pages.db"


def test_verdict_is_saved_with_the_generated_text(evaluate, checkpoint, data):
    """A reader of the samples must see which text the judge read: that of the model, unchanged."""
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
