"""AmbigBio through lm_eval: prompts, the judge as a filter, the same scores from saved samples."""

from __future__ import annotations

import json
from functools import partialmethod
from pathlib import Path

import pytest

from lm_factuality.benchmarks.biographies.task import make_prompt
from lm_factuality.cli.main import main
from lm_factuality.ground.errors import ConfigError, DataError
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
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def data(tmp_path) -> Path:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"data": ROWS}), encoding="utf-8")
    return path


@pytest.fixture
def run(data, tmp_path, monkeypatch):
    """``lm-factuality run`` with one answer to every prompt; returns the exit code."""
    from lm_eval.tasks import TaskManager

    monkeypatch.setattr(
        TaskManager, "__init__", partialmethod(TaskManager.__init__, include_defaults=False)
    )

    def start(task: str = "ambigbio", answer: str = ANSWER, **metadata) -> int:
        given = json.dumps({"generations": str(data), "judge": "lexical", **metadata})
        model = ["--model", "constant-answer", "--model_args", json.dumps({"answer": answer})]
        output = ["--output_path", str(tmp_path / "out"), "--log_samples"]
        return main(["run", *model, "--tasks", task, *output, "--metadata", given])

    return start


def newest(folder: Path, pattern: str) -> Path:
    return max(folder.rglob(pattern))


def test_scores_of_a_run_and_of_its_saved_samples(run, tmp_path):
    assert run(linking="hungarian") == 0
    results = json.loads(newest(tmp_path / "out", "results_*.json").read_text(encoding="utf-8"))
    metrics = results["results"]["ambigbio"]
    assert metrics["factscore,judge"] == 1
    assert metrics["d_factscore,judge"] == pytest.approx(2 / 3)
    assert metrics["difference,judge"] == pytest.approx(1 / 3)
    assert (metrics["num_biographies,judge"], metrics["num_entities,judge"]) == (1, 2)
    assert (
        metrics["one_bio_many_entities,judge"],
        metrics["respond_ratio,judge"],
        metrics["unscored,judge"],
    ) == (1, 1, 0)
    assert metrics["d_factscore_stderr,judge"] == 0
    about = results["configs"]["ambigbio"]["metadata"]
    assert about["caution"].startswith("Judged by word overlap, not by a model")
    assert (about["knowledge"], about["linking"], about["demonstrations"]) == (
        "documents",
        "hungarian",
        "ambiguous",
    )
    assert about["data"]["is_published"] is False
    assert "generations" not in about
    assert set(about["judge_config"]["prompt_hashes"]) == {
        f"biographies/{step}"
        for step in ("decompose", "group", "verify", "verify_page", "verify_true_false")
    }

    samples = newest(tmp_path / "out", "samples_*.jsonl")
    judged = tmp_path / "judged"
    assert (
        main(
            [
                "judge",
                "ambigbio",
                "--samples",
                str(samples),
                "--judge",
                "lexical",
                "--out",
                str(judged),
            ]
        )
        == 0
    )
    again = json.loads((judged / "metrics.json").read_text(encoding="utf-8"))
    for name in (
        "factscore",
        "factscore_penalised",
        "d_factscore",
        "difference",
        "num_entities",
        "respond_ratio",
    ):
        assert again[name]["value"] == metrics[f"{name},judge"]
    assert again["d_factscore"]["worst"] == metrics["d_factscore_worst,judge"]
    assert len((judged / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()) == 3


def test_an_answer_that_declines_is_in_the_respond_ratio_only(run, tmp_path):
    assert run("ambigbio_both", answer="I'm sorry, I cannot say which one you mean.") == 0
    results = json.loads(newest(tmp_path / "out", "results_*.json").read_text(encoding="utf-8"))[
        "results"
    ]
    for task in ("ambigbio", "ambigbio_no_ambig"):
        assert (results[task]["respond_ratio,judge"], results[task]["unscored,judge"]) == (0, 0)
        assert results[task]["factscore,judge"] == "N/A"


def test_the_prompt_has_the_papers_structure(evaluate, data):
    options = {"model_args": {"answer": ANSWER}, "limit": 1}
    output = evaluate(
        "constant-answer",
        ["ambigbio"],
        metadata={"generations": str(data), "judge": "lexical"},
        **options,
    )
    (sample,) = output["samples"]["ambigbio"]
    prompt, settings = sample["arguments"][0]
    first, second, asked = prompt.split("Instruction: ")[1:]
    assert asked.endswith("Name of the person: Ada Lind\n\nAnswer:")
    assert "Document [2] (Title: Ada Lind (pilot)) Ada Lind (born 1955)" in asked
    for demonstration in (first, second):
        assert demonstration.count("Document [") == 5
        assert "[1]" in demonstration.split("Answer:")[1]
    assert (settings["do_sample"], settings["temperature"], settings["top_p"]) == (True, 1.0, 0.95)


@pytest.mark.parametrize("kind", ["ambiguous", "unambiguous"])
def test_demonstrations_are_of_one_entity_and_cite_what_says_so(kind):
    from lm_factuality.benchmarks.biographies.decompose import response_sentences
    from lm_factuality.ground.suite import tasks_folder

    loaded = json.loads(
        (tasks_folder() / "ambigbio" / "demonstrations.json").read_text(encoding="utf-8")
    )[kind]
    assert len(loaded) == 2
    for each in loaded:
        name, titles = each["name"], [passage["title"] for passage in each["passages"]]
        bearers = {title for title in titles if title.split(" (")[0].replace("J. ", "") == name}
        assert (len(bearers) > 1) == (kind == "ambiguous")
        cited = {
            int(part) for part in each["answer"].replace("]", "[").split("[") if part.isdigit()
        }
        assert cited <= set(range(1, 6))
        assert len({titles[number - 1] for number in cited} & bearers) == 1
        assert all("[" in part for part in each["answer"].split(". ")[:-1])
        assert len(response_sentences(each["answer"])) >= 4
    assert (
        make_prompt({"demonstrations": kind})
        .render({"name": "X", "passages": []})
        .endswith("Answer:")
    )


def test_the_authors_prompts_can_be_chosen(evaluate, data, tmp_path):
    folder = tmp_path / "theirs" / "ALCE" / "AmbigBio_prompts"
    folder.mkdir(parents=True)
    demos = [
        {"question": name, "answer": f"{name}.", "docs": [{"title": name, "text": "x"}]}
        for name in "ABC"
    ]
    forms = {
        "demo_sep": "\n\n",
        "demo_prompt": "{INST} {Q}\n{D}Answer: {A}",
        "doc_prompt": "[{ID}] {T}: {P}\n",
        "demos": demos,
    }
    for name in ("no_ambig", "careful"):
        (folder / f"AmbigBio_default_{name}.json").write_text(
            json.dumps({"instruction": name, **forms})
        )
    given = {"generations": str(data), "judge": "lexical", "prompts": str(tmp_path / "theirs")}
    metadata = {}
    for setting in ({}, {"prompt": "careful"}):
        found = evaluate(
            "constant-answer",
            ["ambigbio_no_ambig"],
            model_args={"answer": ANSWER},
            metadata={**given, **setting},
        )
        name, metadata = (
            setting.get("prompt", "no_ambig"),
            found["configs"]["ambigbio_no_ambig"]["metadata"],
        )
        assert found["samples"]["ambigbio_no_ambig"][0]["doc"]["text"].startswith(
            f"{name} A\n[1] A: x\nAnswer:A.\n\n{name} B"
        )
        assert (metadata["prompts"], metadata["prompt"], metadata["demonstrations"]) == (
            "authors",
            name,
            "authors",
        )
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
)
def test_wrong_settings_are_errors_before_anything_is_generated(
    metadata, error, message, evaluate, data
):
    with pytest.raises(error, match=message):
        evaluate(
            "constant-answer",
            ["ambigbio"],
            model_args={"answer": ANSWER},
            metadata={"generations": str(data), "judge": "lexical", **metadata},
        )


def test_a_knowledge_source_is_used_and_named(evaluate, data, tmp_path):
    import sqlite3

    path = tmp_path / "pages.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE documents (title PRIMARY KEY, text)")
        for title in {doc["title"] for row in ROWS for doc in row["docs"]}:
            connection.execute(
                "INSERT INTO documents VALUES (?, ?)", (title, "A page about bridges.")
            )
    metadata = {"generations": str(data), "judge": "lexical", "knowledge": str(path)}
    output = evaluate(
        "constant-answer", ["ambigbio"], model_args={"answer": ANSWER}, metadata=metadata
    )
    assert output["results"]["ambigbio"]["factscore,judge"] == pytest.approx(
        1 / 3
    )  # a title still says painter
    assert output["configs"]["ambigbio"]["metadata"]["knowledge"] == "pages.db"


def test_with_a_model_that_generates(evaluate, checkpoint, data):
    output = evaluate(
        "hf",
        ["ambigbio"],
        model_args={"pretrained": str(checkpoint), "dtype": "float32"},
        limit=1,
        metadata={"generations": str(data), "judge": "lexical"},
        gen_kwargs={"max_gen_toks": 12},
    )
    (sample,) = output["samples"]["ambigbio"]
    record = verdict_of(sample)
    assert record["generation"]["output"] == sample["resps"][0][0]
