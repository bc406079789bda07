"""How a prefix and a completion become one text, by each rule."""

import itertools

import pytest

from lm_factuality.benchmarks.audit import ExpectedRun
from lm_factuality.benchmarks.factor.benchmark import FactorAudit
from lm_factuality.benchmarks.factor.corpus import parse_corpus
from lm_factuality.benchmarks.factor.joining import Join
from lm_factuality.cli.validation import check_targets
from lm_factuality.ground.errors import ConfigError
from tests.conftest import example_row

AUTHORS = Join()
DOLA = Join("dola")
SPACE = Join("delimiter")
NO_DELIMITER = Join("delimiter", "")


@pytest.mark.parametrize(
    ("prefix", "completion", "joined"),
    [
        pytest.param("It rained. ", "He left.", ("It rained.", " He left."), id="one space"),
        pytest.param("It rained.  ", "He left.", ("It rained. ", " He left."), id="two spaces"),
        pytest.param(
            "It rained. ", "  He left.", ("It rained.", " He left."), id="spaces on both sides"
        ),
        pytest.param("It rained.\n", "He left.", ("It rained.\n", "He left."), id="line break"),
        pytest.param("Answer:", "  He left.", ("Answer:", "He left."), id="no space in the prefix"),
        pytest.param("", "He left.", ("", "He left."), id="no prefix"),
    ],
)
def test_authors_rule_moves_the_last_space_to_the_completion(prefix, completion, joined):
    """Tokens of most models begin with a space, so another place of it changes the scores."""
    assert AUTHORS(prefix, completion) == joined


def test_dola_rule_always_adds_a_space():
    """DoLa's script adds a space even where there is one, and so scores another text."""
    assert DOLA("It rained. ", "  He left.") == ("It rained. ", "   He left.")


FRANCE = "The capital of France is"


@pytest.mark.parametrize(
    ("prefix", "completion", "joined"),
    [
        pytest.param(FRANCE, "Paris.", (FRANCE, " Paris."), id="no space"),
        pytest.param(f"{FRANCE} ", "Paris.", (FRANCE, " Paris."), id="space in the prefix"),
        pytest.param(FRANCE, " Paris.", (FRANCE, " Paris."), id="space in the completion"),
        pytest.param(f"{FRANCE} ", " Paris.", (FRANCE, "  Paris."), id="space in both"),
        pytest.param("It rained.\n", "He left.", ("It rained.\n", "He left."), id="line break"),
        pytest.param(
            "It rained.\n", "  He left.", ("It rained.\n", "  He left."), id="indented line"
        ),
        pytest.param("", "He left.", ("", "He left."), id="no prefix"),
    ],
)
def test_space_rule_adds_a_space_only_where_white_space_is_missing(prefix, completion, joined):
    """The space goes to the completion, as tokens of most models begin with one."""
    assert SPACE(prefix, completion) == joined


@pytest.mark.parametrize(
    ("prefix", "completion", "joined"),
    [
        ("法国的首都是", "巴黎。", ("法国的首都是", "巴黎。")),
        (f"{FRANCE} ", "Paris.", (FRANCE, " Paris.")),
    ],
)
def test_an_empty_delimiter_adds_nothing(prefix, completion, joined):
    """Languages such as Chinese have no spaces between sentences."""
    assert NO_DELIMITER(prefix, completion) == joined


@pytest.mark.parametrize(
    ("delimiter", "prefix", "joined"),
    [("\n", "Answer:", ("Answer:\n", "Paris.")), (": ", "Answer", ("Answer:", " Paris."))],
)
def test_delimiter_is_inserted_before_the_completion(delimiter, prefix, joined):
    """The last space of a delimiter goes to the completion, as tokens begin with spaces."""
    assert Join("delimiter", delimiter)(prefix, "Paris.") == joined


PREFIXES = ("It is", "It is ", "It is\n", " ")
COMPLETIONS = ("so.", " so.", "  so.", "\nso.")


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(DOLA, id="dola"),
        pytest.param(SPACE, id="space"),
        pytest.param(NO_DELIMITER, id="no delimiter"),
    ],
)
@pytest.mark.parametrize(("prefix", "completion"), itertools.product(PREFIXES, COMPLETIONS))
def test_other_rules_than_the_authors_add_at_most_one_space(rule, prefix, completion):
    """A dropped character would change the text of a user's own rows."""
    text = "".join(rule(prefix, completion))

    assert text in (f"{prefix}{completion}", f"{prefix} {completion}")


def parse_join(**metadata):
    """Return the rule of a YAML with these settings."""
    return parse_corpus({"task": "t", "dataset_path": "rows.csv", "metadata": metadata}).join


@pytest.mark.parametrize(
    ("metadata", "join"),
    [
        pytest.param({}, SPACE, id="one's own rows"),
        pytest.param({"delimiter": ""}, NO_DELIMITER, id="delimiter"),
        pytest.param({"join": "authors"}, AUTHORS, id="the authors' rule"),
        pytest.param(
            {"join": "delimiter", "delimiter": "\n"},
            Join("delimiter", "\n"),
            id="rule and delimiter",
        ),
        pytest.param({"source": "news_factor"}, AUTHORS, id="published rows"),
        pytest.param(
            {"source": "news_factor", "join": "delimiter"}, SPACE, id="published rows and rule"
        ),
        pytest.param({"protocol": "dola"}, DOLA, id="protocol with a rule"),
    ],
)
def test_yaml_determines_the_joining_rule(metadata, join):
    """Published rows are joined as in the paper, and other rows as they are written."""
    assert parse_join(**metadata) == join


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (
            {"join": "authors", "delimiter": " "},
            "metadata.delimiter: 'join: authors' has no delimiter; keep one of the two",
        ),
        ({"join": "author"}, "metadata.join is 'author'; expected 'authors' or 'delimiter'"),
        ({"delimiter": 1}, "metadata.delimiter is 1; expected a valid string"),
    ],
)
def test_unknown_joining_rule_is_refused(metadata, message):
    """A misspelt rule would silently leave the default, and so change scores."""
    with pytest.raises(ConfigError, match=message):
        parse_join(**metadata)


TRUE_COMPLETION = example_row()["completion"]


@pytest.fixture
def yaml_of_row_without_space(factor_yaml, write_rows):
    """Return a function that writes the YAML of a row without a space between prefix and choices.

    Its arguments are settings of the YAML.
    """
    write_rows([example_row(turncated_prefixes="The library is")])

    def write(**settings):
        return factor_yaml(dataset_path="rows.jsonl", metadata={"version": 1.0, **settings})

    return write


def test_validate_shows_how_the_first_row_is_joined(yaml_of_row_without_space):
    """A space between prefix and completion changes every score, so a user checks it."""
    (report,) = check_targets([str(yaml_of_row_without_space())])

    join = "'The library is' + ' Its first keeper was a ' (join: delimiter ' ')"
    assert report.first_join == join
    assert report.problems == ()


@pytest.mark.parametrize(
    ("settings", "request_text", "join"),
    [
        pytest.param({}, f" {TRUE_COMPLETION}", "delimiter", id="by default words are kept apart"),
        pytest.param(
            {"join": "authors"}, TRUE_COMPLETION, "authors", id="the authors' rule adds no space"
        ),
    ],
)
def test_requests_are_joined_by_the_rule_of_the_yaml(
    yaml_of_row_without_space, evaluate, checkpoint, settings, request_text, join
):
    """The row has no space between prefix and choices, so that only the rule can add one."""
    path = yaml_of_row_without_space(**settings)

    output = evaluate("hf", ["my_factor"], path.parent, {"pretrained": str(checkpoint)})

    (sample,) = output["samples"]["my_factor"]
    context, continuation, *_ = sample["arguments"][0]
    assert context == "The library is"
    assert continuation == request_text
    assert output["configs"]["my_factor"]["metadata"]["join"] == join


def test_results_record_the_default_delimiter(factor_yaml, write_rows, evaluate, checkpoint):
    """Two runs of one task can be compared only if their texts were the same."""
    write_rows([example_row()])
    path = factor_yaml(dataset_path="rows.jsonl", metadata={"version": 1.0})

    output = evaluate("hf", ["my_factor"], path.parent, {"pretrained": str(checkpoint)})

    assert output["configs"]["my_factor"]["metadata"]["delimiter"] == " "


@pytest.fixture
def sample_joined_by_space():
    """Return a sample whose requests join prefix and choices by a space."""
    return {
        "doc": {"prefix": "It is", "choices": ["so.", "no."]},
        "arguments": {
            "gen_args_0": {"arg_0": "It is", "arg_1": " so.", "arg_2": 1024},
            "gen_args_1": {"arg_0": "It is", "arg_1": " no.", "arg_2": 1024},
        },
    }


def test_leaderboard_accepts_requests_joined_by_its_rule(sample_joined_by_space):
    """The leaderboard joins by a delimiter, as the requests of the sample do."""
    audit = FactorAudit(ExpectedRun({"window": 1024, "join": "delimiter"}))

    assert audit.request_problem(sample_joined_by_space) is None


def test_leaderboard_refuses_requests_joined_by_another_rule(sample_joined_by_space):
    """By the authors' rule, this prefix and these choices have no space between them."""
    audit = FactorAudit(ExpectedRun({"window": 1024}))  # the authors' rule is the default

    assert audit.request_problem(sample_joined_by_space) is not None
