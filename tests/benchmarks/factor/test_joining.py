"""How prefix and completion become one text, by each rule."""

import pytest

from lm_factuality.benchmarks.audit import ExpectedRun
from lm_factuality.benchmarks.factor.benchmark import FactorAudit
from lm_factuality.benchmarks.factor.corpus import parse_corpus
from lm_factuality.benchmarks.factor.joining import Join
from lm_factuality.cli.validation import check_targets as validate
from lm_factuality.ground.errors import ConfigError
from tests.conftest import example_row

AUTHORS, DOLA, SPACE, NONE = Join(), Join("dola"), Join("delimiter"), Join("delimiter", "")


@pytest.mark.parametrize(
    ("rule", "prefix", "completion", "joined"),
    [
        (AUTHORS, "It rained. ", "He left.", ("It rained.", " He left.")),
        (AUTHORS, "It rained.  ", "He left.", ("It rained. ", " He left.")),
        (AUTHORS, "It rained. ", "  He left.", ("It rained.", " He left.")),
        (AUTHORS, "It rained.\n", "He left.", ("It rained.\n", "He left.")),
        (AUTHORS, "Answer:", "  He left.", ("Answer:", "He left.")),
        (AUTHORS, "", "He left.", ("", "He left.")),
        (DOLA, "It rained. ", "  He left.", ("It rained. ", "   He left.")),
        (SPACE, "The capital of France is", "Paris.", ("The capital of France is", " Paris.")),
        (SPACE, "The capital of France is ", "Paris.", ("The capital of France is", " Paris.")),
        (SPACE, "The capital of France is", " Paris.", ("The capital of France is", " Paris.")),
        (SPACE, "The capital of France is ", " Paris.", ("The capital of France is", "  Paris.")),
        (SPACE, "It rained.\n", "He left.", ("It rained.\n", "He left.")),
        (SPACE, "It rained.\n", "  He left.", ("It rained.\n", "  He left.")),
        (SPACE, "", "He left.", ("", "He left.")),
        (NONE, "法国的首都是", "巴黎。", ("法国的首都是", "巴黎。")),
        (NONE, "The capital of France is ", "Paris.", ("The capital of France is", " Paris.")),
        (Join("delimiter", "\n"), "Answer:", "Paris.", ("Answer:\n", "Paris.")),
        (Join("delimiter", ": "), "Answer", "Paris.", ("Answer:", " Paris.")),
    ],
)
def test_each_rule(rule, prefix, completion, joined):
    assert rule(prefix, completion) == joined


def test_no_rule_but_the_authors_drops_a_character():
    for prefix in ("It is", "It is ", "It is\n", " "):
        for completion in ("so.", " so.", "  so.", "\nso."):
            for rule in (DOLA, SPACE, NONE):
                text = "".join(rule(prefix, completion))
                assert text.startswith(prefix)
                assert text.endswith(completion)
                assert len(text) - len(prefix) - len(completion) in (0, 1)


@pytest.mark.parametrize(
    ("metadata", "join"),
    [
        ({}, SPACE),
        ({"delimiter": ""}, NONE),
        ({"join": "authors"}, AUTHORS),
        ({"join": "delimiter", "delimiter": "\n"}, Join("delimiter", "\n")),
        ({"source": "news_factor"}, AUTHORS),
        ({"source": "news_factor", "join": "delimiter"}, SPACE),
        ({"protocol": "dola"}, DOLA),
    ],
)
def test_the_yaml_names_the_rule(metadata, join):
    assert (
        parse_corpus({"task": "t", "dataset_path": "rows.csv", "metadata": metadata}).join == join
    )


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (
            {"join": "authors", "delimiter": " "},
            "metadata.delimiter: 'join: authors' has no delimiter; keep one of the two",
        ),
        ({"join": "author"}, "metadata.join is 'author'; expected 'authors' or 'delimiter'"),
        ({"delimiter": 1}, "metadata.delimiter is 1; expected a valid string"),
    ],
)
def test_what_is_no_rule_is_refused(metadata, said):
    with pytest.raises(ConfigError, match=said):
        parse_corpus({"task": "t", "dataset_path": "rows.csv", "metadata": metadata})


def test_rows_of_ones_own_keep_their_words_apart(
    tmp_path, checkpoint, evaluate, factor_yaml, write_rows, caplog
):
    rows = [example_row(turncated_prefixes=prefix) for prefix in ("The library is", "Its lib")]
    rows[1] |= {
        key: "rary " + rows[1][key]
        for key in rows[1]
        if key.startswith(("completion", "contradiction_"))
    }
    write_rows(rows)
    path = factor_yaml(dataset_path="rows.jsonl", metadata={"version": 1.0})
    factor_yaml("glued", dataset_path="rows.jsonl", metadata={"version": 1.0, "join": "authors"})
    (report,) = validate([str(path)])
    assert (
        report.first_join == "'The library is' + ' Its first keeper was a ' (join: delimiter ' ')"
    )
    assert report.problems == ()
    asked = {}
    with caplog.at_level("INFO"):
        for name in ("my_factor", "glued"):
            caplog.clear()
            found = evaluate(
                "hf", [name], tmp_path, {"pretrained": str(checkpoint)}, log_samples=True
            )
            asked[name] = [
                [each["arguments"][0][:2] for each in found["samples"][name]],
                found["configs"][name]["metadata"],
            ]
    requests, metadata = asked["my_factor"]
    assert requests[0] == ("The library is", f" {rows[0]['completion']}")
    assert (metadata["join"], metadata["delimiter"]) == ("delimiter", " ")
    requests, metadata = asked["glued"]
    assert requests[0] == ("The library is", rows[0]["completion"])
    assert metadata["join"] == "authors"


def test_a_leaderboard_expects_its_rule():
    doc = {"prefix": "It is", "choices": ["so.", "no."]}
    sample = {
        "doc": doc,
        "arguments": {
            f"gen_args_{n}": {"arg_0": "It is", "arg_1": f" {each}", "arg_2": 1024}
            for n, each in enumerate(doc["choices"])
        },
    }
    assert FactorAudit(ExpectedRun({"window": 1024})).request_problem(sample) is not None
    assert (
        FactorAudit(ExpectedRun({"window": 1024, "join": "delimiter"})).request_problem(sample)
        is None
    )
