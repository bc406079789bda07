"""The dataset card, which says what the build did and what it did not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from factor_gen.audit.audit import audit_rows
from factor_gen.choose import ChosenRow, DocumentOutcome
from factor_gen.output.card import dataset_card
from factor_gen.output.counts import BuiltBenchmark
from factor_gen.output.write import Provenance
from factor_gen.settings import (
    ChooseSettings,
    CorpusSettings,
    FilterSettings,
    FluencySettings,
    GenerateSettings,
    JudgeSettings,
    NliSettings,
    OfflineSettings,
)
from lm_factuality.benchmarks.factor import rows as factor_rows
from tests.factor_gen.output.conftest import make_settings

MakeCard = Callable[..., str]
"""Returns the card of the small build with other values of `BuildSettings`."""


@pytest.fixture
def make_card(outcomes: list[DocumentOutcome], provenance: Provenance) -> MakeCard:
    """Return a function that makes the card of the small build with other settings."""
    built = BuiltBenchmark({}, {"language is not en": 4})
    rows = []
    for outcome in outcomes:
        built.count(outcome)
        if isinstance(outcome, ChosenRow):
            example = outcome.example
            choices = [example.completion, *(false.text for false in outcome.contradictions)]
            types = ["", "entity", "circumstance", "predicate"]
            rows.append(
                factor_rows.make_row("x:1", example.doc_id, example.prefix, choices, 0, types)
            )
    audit = audit_rows(rows)

    def make(**changes: Any) -> str:
        """Return the card of the small build with changed settings."""
        return dataset_card(make_settings(**changes), provenance.corpus, built.to_json(), audit)

    return make


@pytest.fixture
def card(make_card: MakeCard) -> str:
    """Return the card of the small build, in which no filter was on."""
    return make_card()


def read_front_matter(card: str) -> dict[str, Any]:
    """Return the YAML at the beginning of a card, which the Hub reads."""
    return yaml.safe_load(card.split("---\n")[1])


def read_table_rows(card: str) -> list[list[str]]:
    """Return the cells of all rows of all tables in a card."""
    rows = []
    for line in card.splitlines():
        if line.startswith("|"):
            cells = line.strip("|").split(" | ")
            rows.append([cell.strip() for cell in cells])
    return rows


def test_the_front_matter_tells_the_hub_what_the_dataset_is(card: str) -> None:
    """The Hub lists data sets by these fields."""
    front_matter = read_front_matter(card)

    assert front_matter["license"] == "mit"
    assert front_matter["task_categories"] == ["multiple-choice", "text-generation"]
    assert front_matter["size_categories"] == ["n<1K"]


def test_the_front_matter_names_the_file_that_the_hub_shows(card: str) -> None:
    """The folder has other files, which the Hub would try to show as well."""
    assert read_front_matter(card)["configs"] == [
        {"config_name": "default", "data_files": [{"split": "test", "path": "harbours.parquet"}]}
    ]


def test_a_licence_that_the_hub_does_not_know_is_named(make_card: MakeCard) -> None:
    """The Hub refuses an unknown licence, but takes "other" with a name."""
    corpus = CorpusSettings(path="x.txt", license="Terms of the harbour: 'ask first'")

    front_matter = read_front_matter(make_card(corpus=corpus))

    assert front_matter["license"] == "other"
    assert front_matter["license_name"] == "Terms of the harbour: 'ask first'"


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(["select", "6", "2"], id="documents that came and went at a stage"),
        pytest.param(["choose", "4", "1"], id="documents at the last stage"),
        pytest.param(["select", "no sentence of 10 words or more", "2"], id="reason of a stage"),
        pytest.param(
            ["predicate", "3", "33.3", "25.4", "31.3", "47.1"],
            id="error type beside the shares of the paper",
        ),
        pytest.param(["filter: not fluent", "3"], id="rejected contradictions"),
        pytest.param(["no change", "3"], id="lost contradictions"),
        pytest.param(["left out", "4 rows: language is not en"], id="rows of the corpus left out"),
    ],
)
def test_tables_count_outcomes_of_documents_and_contradictions(card: str, row: list[str]) -> None:
    """Readers want to know which documents were left out."""
    assert row in read_table_rows(card)


def test_the_card_compares_the_edit_distance_with_the_papers_table_2(card: str) -> None:
    """Readers see whether the edits are as small as those of the authors."""
    assert "1.3 ± 0.5. Beside table 2: Wiki 2.3 ± 1.4, News 2.1 ± 1.4, Expert 4.0 ± 3.1." in card


def test_the_card_says_how_many_documents_gave_a_row(card: str) -> None:
    """Three of four documents gave a row, and all three have two types or more."""
    expected = (
        "Of the 4 documents in which a sentence was found, 75.0% gave a row, 75.0% one of two or"
        " more types."
    )
    assert expected in card


NOTHING_CHECKED = "**Nothing checked that what was generated contradicts the original**"
FLUENCY_FILTER_OFF = "**The fluency filter was off**"


@pytest.mark.parametrize(
    ("settings", "is_check_off", "is_fluency_off"),
    [
        pytest.param({}, True, True, id="both off"),
        pytest.param({"filter": FilterSettings()}, True, False, id="fluency on"),
        pytest.param({"contradiction": OfflineSettings()}, False, True, id="check on"),
    ],
)
def test_the_card_says_that_a_filter_was_off(
    make_card: MakeCard, settings: dict[str, Any], is_check_off: bool, is_fluency_off: bool
) -> None:
    """Without a check some "contradictions" may be true, which readers have to know."""
    card = make_card(**settings)

    assert (NOTHING_CHECKED in card) is is_check_off
    assert (FLUENCY_FILTER_OFF in card) is is_fluency_off


def test_the_card_says_that_rules_checked_the_contradictions(make_card: MakeCard) -> None:
    card = make_card(contradiction=OfflineSettings())

    assert "Check: `offline`. Rules let pass only" in card


def test_the_card_says_that_the_writer_checked_its_contradictions(make_card: MakeCard) -> None:
    """The check asks the judge that wrote the contradictions if no other one is named."""
    writer = GenerateSettings(generator="llm", judge="/home/me/mine.yaml")

    card = make_card(generate=writer, contradiction=JudgeSettings(judge=None))

    assert "Check: `judge`. `mine.yaml` was asked anew" in card


def test_the_card_names_the_judge_that_checked_the_contradictions(make_card: MakeCard) -> None:
    writer = GenerateSettings(generator="llm", judge="/home/me/mine.yaml")

    card = make_card(generate=writer, contradiction=JudgeSettings(judge="/a/other.yaml"))

    assert "`other.yaml` was asked whether" in card


def test_the_card_says_which_model_filtered_at_which_threshold(make_card: MakeCard) -> None:
    """Another model or threshold would have kept other rows."""
    filters = FilterSettings(FluencySettings("tiny", context=0))

    card = make_card(filter=filters, contradiction=NliSettings(threshold=0.7))

    expected = (
        "`microsoft/deberta-large-mnli` gives the contradiction more than 0.7 (coreference: 0.3)"
    )
    assert expected in card
    assert "words before" not in card


def test_the_card_names_a_model_without_its_folder(make_card: MakeCard) -> None:
    """A card is published, and must not show the folders of this machine."""
    card = make_card(filter=FilterSettings(FluencySettings("/home/me/models/tiny")))

    assert "`tiny` found that the edit lowers" in card
    assert "/home/me" not in card


def test_the_card_says_how_the_fluency_filter_read_sentences(make_card: MakeCard) -> None:
    """The limits are those of the settings: 0.05 nats, 60 words before, and 3 nats by default."""
    fluency = FluencySettings("tiny", drop=0.05, context=60)

    card = make_card(filter=FilterSettings(fluency))

    limits = (
        "by more than 0.05 nats, and that no other form of an edited word is likelier by more than"
        " 3.0 nats, each read after the 60 words before it."
    )
    assert limits in card


HIDDEN = ChooseSettings(hide_most_central=True)
"""With this setting, a contradiction may have two edits, so that the truth is not in the centre."""

TWO_EDITS = "have the edit of the first made in them too"
NOT_FILTERED_AS_A_WHOLE = "**No filter saw such a sentence as a whole**"


def test_the_card_says_that_contradictions_may_have_two_edits(make_card: MakeCard) -> None:
    """Otherwise readers would take it for a mistake in the rows."""
    assert TWO_EDITS in make_card(choose=HIDDEN)


def test_card_does_not_mention_two_edits_without_any(card: str) -> None:
    """Readers would ignore cautions that do not apply."""
    assert "edit of the first" not in card


def test_the_card_says_that_no_filter_saw_two_edits_together(make_card: MakeCard) -> None:
    """The filter saw each edit alone, so two edits together may not be fluent."""
    card = make_card(choose=HIDDEN, filter=FilterSettings())

    assert NOT_FILTERED_AS_A_WHOLE in card


def test_card_omits_the_two_edit_caveat_without_filters(make_card: MakeCard) -> None:
    """Another sentence of the card already says that all filters were off."""
    assert "No filter saw" not in make_card(choose=HIDDEN)


def test_card_shows_accuracies_of_blind_baselines(
    make_card: MakeCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users see what a model could score without knowledge, rule by rule.

    In the three rows, the rule that takes the choice with the most words wins half. Of so few
    documents no verdict can be given.
    """
    monkeypatch.setattr("factor_gen.output.card.FEWEST", 1)

    card = make_card()

    [most_words] = [row for row in read_table_rows(card) if row[0] == "most words"]
    _name, family, rows_won, *_, verdict = most_words
    assert family == "surface"
    assert rows_won == "50.0%"
    assert verdict == "too few documents to tell"


def test_card_of_few_documents_omits_baselines(card: str) -> None:
    """The audit cannot find leaks in three rows. "most words" is one of its baselines."""
    assert card.count("too few documents to tell") == 1
    assert "most words" not in card


def test_the_card_does_not_depend_on_the_engine(make_card: MakeCard, card: str) -> None:
    """The same benchmark must have the same card, however it was computed."""
    assert make_card(engine="ray", workers=3) == card
    assert "workers" not in card


def test_text_outside_utf_8_is_replaced(make_card: MakeCard) -> None:
    """The card is a file in UTF-8."""
    card = make_card(corpus=CorpusSettings(path="x", source="half \ud800"))

    assert "half \ufffd" in card
