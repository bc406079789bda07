"""Languages: which one a text is in, which are refused, and what rules and prompts exist."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from factor_gen.cli import main
from factor_gen.config import load_build
from factor_gen.corpus import split_into_sentences
from factor_gen.generate.llm.generator import LLMGenerator
from factor_gen.generate.rules.edits import apply_replacements
from factor_gen.generate.rules.listed import LANGUAGES, edit_by_word_lists, language_rules
from factor_gen.language import LANGUAGES_WITH_RULES, check_language, identify_language
from factor_gen.records import ERROR_TYPES, Example
from factor_gen.select import SelectStage
from factor_gen.settings import GenerateSettings, SelectSettings
from factor_gen.text.sentences import sentence_spans
from lm_factuality.ground.errors import ConfigError, DataError

TEXTS = {
    "en": (
        "The old mill stands beside the river, and the council wants to sell it before the winter"
        " comes."
    ),
    "de": (
        "Die alte Mühle steht am Fluss, und der Gemeinderat will sie verkaufen, bevor der Winter"
        " kommt."
    ),
    "fr": (
        "Le vieux moulin se trouve au bord de la rivière, et le conseil veut le vendre avant"
        " l'hiver."
    ),
    "es": (
        "El viejo molino está junto al río, y el ayuntamiento quiere venderlo antes de que llegue"
        " el invierno."
    ),
    "zh": "这座老磨坊坐落在河边，镇议会想在冬天到来之前把它卖掉。",
    "ru": "Старая мельница стоит у реки, и совет хочет продать её до наступления зимы.",
    "ja": "この古い水車小屋は川のそばにあり、町議会は冬が来る前に売りたいと考えている。",
}
"""The same sentence in several languages, by ISO 639-1 code."""

LISTED_LANGUAGES = [language for language in LANGUAGES_WITH_RULES if language != "en"]
"""The languages whose rules are a list of words. English has rules in code."""


@pytest.mark.parametrize("language", TEXTS)
def test_the_language_of_a_sentence_is_identified(language: str) -> None:
    """Only sentences in the language of the corpus are selected."""
    assert identify_language(TEXTS[language]) == language


@pytest.mark.parametrize("language", TEXTS)
def test_language_of_a_long_text_is_identified_in_its_middle(language: str) -> None:
    """Texts begin and end with menus, tables and code."""
    text = "... " * 500 + TEXTS[language] * 5 + "... " * 500

    assert identify_language(text) == language


def make_documents(language: str, count: int) -> list[Example]:
    """Return documents in a language, each with the same text."""
    return [Example(f"{language} {number}", TEXTS[language]) for number in range(count)]


def test_a_corpus_in_another_language_is_refused_with_the_setting_to_write() -> None:
    """English rules make nonsense of German sentences."""
    documents = [*make_documents("de", 9), *make_documents("en", 1)]
    problem = "9 of the first 10 documents are in 'de', expected 'en'; name it: .*language: de"

    with pytest.raises(DataError, match=problem):
        list(check_language(documents, "en"))


def test_a_corpus_in_a_language_without_rules_is_refused() -> None:
    """English rules would make nonsense of French sentences."""
    problem = "in 'fr', expected 'en'; there are no rules for it: ask a model"

    with pytest.raises(DataError, match=problem):
        list(check_language(make_documents("fr", 1), "en"))


@pytest.mark.parametrize(
    ("documents", "language"),
    [
        pytest.param(make_documents("de", 9), "de", id="all in the language"),
        pytest.param([Example("", "3 + 4")], "de", id="in no language"),
        pytest.param(
            [*make_documents("de", 9), *make_documents("en", 5)], "en", id="a third is enough"
        ),
    ],
)
def test_corpus_of_uncertain_language_passes_unchanged(
    documents: list[Example], language: str
) -> None:
    """Short and mixed texts are often misjudged, so only a clear case is refused."""
    assert list(check_language(documents, language)) == documents


def select(text: str, language: str, seed: int = 0, **settings: Any) -> Example:
    """Return what the stage ``select`` makes of a document of a corpus in a language.

    Args:
        text: The text of the document.
        language: The language of the corpus.
        seed: The seed of the build.
        settings: Fields of `SelectSettings`, such as ``position``.
    """
    [document] = split_into_sentences([Example("one", text)], language=language)
    [example] = SelectStage(SelectSettings(**settings), seed, language).run([document])
    return example


@pytest.mark.parametrize("seed", range(5))
def test_the_selected_sentence_is_in_the_language_of_the_corpus(seed: int) -> None:
    """Texts quote other languages, in which the rules cannot edit."""
    english = "The old mill stands beside the river, and the council wants to sell it this winter."
    german = "Die alte Mühle steht am Fluss, und der Gemeinderat will sie im Herbst verkaufen."

    example = select(f"Kapitel 1. {english}\n{german}\n{english}\n", "de", seed)

    assert example.completion == german


def test_a_document_without_a_sentence_in_the_language_says_so() -> None:
    text = "It is old.\nThe mill stands beside the river, and the council wants to sell it soon."

    assert select(text, "es").unused == "select: no sentence in the language es"


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        pytest.param(
            "de",
            "Sie kam im 19. Jahrhundert. Sie ging am 3. Mai z. B. nach Hause.",
            ["Sie kam im 19. Jahrhundert.", "Sie ging am 3. Mai z. B. nach Hause."],
            id="a full stop marks an ordinal number in German",
        ),
        pytest.param(
            "zh",
            "他来了。她走了！“真的吗？”是的。",
            ["他来了。", "她走了！", "“真的吗？”", "是的。"],
            id="no space follows a sentence in Chinese",
        ),
        pytest.param(
            "en",
            "It was 19. Years went by.",
            ["It was 19.", "Years went by."],
            id="a full stop ends a sentence in English",
        ),
    ],
)
def test_sentences_end_by_the_rules_of_the_language(
    language: str, text: str, sentences: Sequence[str]
) -> None:
    """A completion must be a whole sentence."""
    assert [text[start:end] for start, end in sentence_spans(text, language)] == sentences


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        pytest.param(
            "de", "„Die Mühle“, sagte er, „wird im Herbst an die Stadt verkauft.“", id="quotes"
        ),
        pytest.param("zh", "镇议会想在今年冬天到来之前把这座老磨坊卖掉。", id="no spaces"),
        pytest.param(
            "es",
            "¿Por qué quiere el ayuntamiento vender el viejo molino antes del invierno?",
            id="question mark before the question",
        ),
    ],
)
def test_a_sentence_with_the_marks_of_its_language_is_selected(
    language: str, sentence: str
) -> None:
    """Quotation marks, missing spaces and marks at the beginning are no faults there."""
    assert select(f"x\n{sentence}", language, position="last").completion == sentence


@pytest.mark.parametrize(
    ("language", "sentence", "reason"),
    [
        (
            "de",
            "Die Mühle „am Fluss wird im Herbst für viel Geld an die Stadt verkauft.",
            "no sentence whose quotes and brackets are balanced",
        ),
        ("zh", "镇议会想卖掉它。", "no sentence of 10 words or more"),
        (
            "zh",
            "镇议会想在冬天到来之前把这座老磨坊卖掉",
            "no sentence that ends with . ! or ?",
        ),
        (
            "zh",
            "镇议会想在（今年冬天到来之前把这座老磨坊卖掉。",
            "no sentence whose quotes and brackets are balanced",
        ),
    ],
)
def test_a_malformed_sentence_of_another_language_is_not_selected(
    language: str, sentence: str, reason: str
) -> None:
    """Chinese has no spaces, so its signs count as words."""
    assert select(f"x\n{sentence}", language, position="last").unused == f"select: {reason}"


@pytest.mark.parametrize(
    ("language", "sentence", "operators"),
    [
        (
            "de",
            "Das Paket wurde am 3. Oktober 1990 in Berlin veröffentlicht.",
            {"month", "day", "year", "city", "opposite", "negation added"},
        ),
        (
            "de",
            "Sie können die Datei öffnen, weil die alte Version nicht gesperrt ist.",
            {"opposite", "cause", "property", "negation added", "negation removed"},
        ),
        ("zh", "这个软件包于1990年10月3日在北京发布。", {"year", "month", "day", "city"}),
        (
            "zh",
            "因为旧的版本无法使用，您可以打开左侧的文件。",
            {"cause", "property", "ability", "opposite", "side"},
        ),
        ("zh", "它是一个自由的操作系统。", {"negation added"}),
    ],
)
def test_a_word_list_finds_all_that_can_be_edited(
    language: str, sentence: str, operators: set[str]
) -> None:
    """The expected operators are those whose words stand in the sentence."""
    edits = list(edit_by_word_lists(sentence, language, random.Random(1)))

    assert {edit.operator for edit in edits} == {f"{language}/{name}" for name in operators}
    for edit in edits:
        assert apply_replacements(sentence, edit.replacements) != sentence


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        pytest.param(
            "de",
            "Bitte schließen Sie das Gerät über 300 Meter weit an.",
            id="a verb in two parts, and a vague number",
        ),
        pytest.param("de", "Er sagte: „Die alte Mühle ist immer links.“", id="a quotation"),
        pytest.param(
            "de",
            "Sie stehen auf keiner der schwarzen Listen von Version 3 Abschnitt 2.",
            id="set phrases and numbers of sections",
        ),
        pytest.param(
            "zh", "他住在上海路，请看第3章和超过5个文件。", id="a street, a chapter, a vague number"
        ),
    ],
)
def test_word_list_makes_no_edit_that_may_stay_true(language: str, sentence: str) -> None:
    """A contradiction must not be true."""
    assert list(edit_by_word_lists(sentence, language, random.Random(1))) == []


def edit_german(sentence: str, operator: str = "", num_seeds: int = 5) -> set[str]:
    """Return the sentences that the German list makes of a sentence.

    Args:
        sentence: The sentence.
        operator: The name of the only operator to use. All of them by default.
        num_seeds: How many seeds are tried. Each draws other words and numbers.
    """
    sentences = set()
    for seed in range(num_seeds):
        for edit in edit_by_word_lists(sentence, "de", random.Random(seed)):
            if not operator or edit.operator == f"de/{operator}":
                sentences.add(apply_replacements(sentence, edit.replacements))
    return sentences


@pytest.mark.parametrize(
    ("sentence", "edited_sentence"),
    [
        (
            "Der Prüfbericht wurde im Mai von der Stadt bestätigt.",
            "Der Prüfbericht wurde im Mai von der Stadt nicht bestätigt.",
        ),
        ("Die Liste konnte nicht gelesen werden.", "Die Liste konnte gelesen werden."),
        ("Große Dateien liegen dort.", "Kleine Dateien liegen dort."),
        (
            "Danach endet das Programm, weil es keinen Platz gibt.",
            "Vorher endet das Programm, weil es keinen Platz gibt.",
        ),
        ("Es gibt keinen Platz für alle.", "Es gibt einen Platz für alle."),
    ],
)
def test_german_edits_keep_endings_and_capitals(sentence: str, edited_sentence: str) -> None:
    """A model would recognise a contradiction with a wrong ending by its grammar."""
    edited_sentences = edit_german(sentence, num_seeds=20)

    assert edited_sentence in edited_sentences


def test_a_german_year_is_moved_by_at_most_four_years() -> None:
    """A model would recognise a very different year without any knowledge of the text."""
    edited_sentences = edit_german("Er baute es im Jahr 1990.", num_seeds=20)

    assert edited_sentences
    other_years = [1986, 1987, 1988, 1989, 1991, 1992, 1993, 1994]
    assert edited_sentences <= {f"Er baute es im Jahr {year}." for year in other_years}


def test_german_number_is_replaced_by_a_similar_number() -> None:
    """A model would recognise a very different number without any knowledge of the text."""
    edited_sentences = edit_german("Das dauert 30 Minuten.", num_seeds=20)

    assert edited_sentences
    assert "Das dauert 30 Minuten." not in edited_sentences
    assert edited_sentences <= {f"Das dauert {minutes} Minuten." for minutes in range(10, 50)}


@pytest.mark.parametrize(
    ("sentence", "denial"),
    [
        ("Die Marke kann verwandt werden.", "Die Marke kann nicht verwandt werden."),
        (
            "Die Marke kann im Text verwandt werden.",
            "Die Marke kann im Text nicht verwandt werden.",
        ),
        ("Die Datei wurde gelöscht.", "Die Datei wurde nicht gelöscht."),
        (
            "Das Format wird vom Programm unterstützt.",
            "Das Format wird vom Programm nicht unterstützt.",
        ),
        (
            "Der Name muss im Text übersetzt werden.",
            "Der Name muss im Text nicht übersetzt werden.",
        ),
        (
            "Die Liste konnte dort benutzt worden sein.",
            "Die Liste konnte dort nicht benutzt worden sein.",
        ),
        (
            "Die Liste soll dort sein und kann heute umgesetzt werden.",
            "Die Liste soll dort sein und kann heute nicht umgesetzt werden.",
        ),
        ("Die Marke kann hinzugelegt werden.", "Die Marke kann nicht hinzugelegt werden."),
    ],
)
def test_a_german_denial_stands_before_the_participle(sentence: str, denial: str) -> None:
    """A model would recognise a word at a wrong place by the grammar."""
    assert edit_german(sentence, "negation added") == {denial}


@pytest.mark.parametrize(
    "sentence",
    [
        pytest.param(
            "Es ist klar, welche Pakete installiert werden sollen.", id="a dependent clause"
        ),
        pytest.param("Die Marke kann durchsucht werden.", id="an unknown participle"),
        pytest.param("Das Programm muss überhaupt.", id="no participle"),
    ],
)
def test_german_denial_needs_a_known_participle(sentence: str) -> None:
    """A model would recognise a "nicht" at a wrong place by the grammar."""
    assert edit_german(sentence, "negation added") == set()


@pytest.mark.parametrize("language", LISTED_LANGUAGES)
def test_every_rule_of_a_word_list_has_a_known_error_type(language: str) -> None:
    """The list is a table that people edit, and a misspelt type would be counted apart."""
    assert {rule.error_type for rule in language_rules(language)} <= set(ERROR_TYPES)


@pytest.mark.parametrize(
    ("language", "sentence", "ending"),
    [("de", "x {word} y", "e Dinge"), ("zh", "甲{word}了", "")],
)
def test_every_swap_of_a_word_list_finds_all_of_its_words(
    language: str, sentence: str, ending: str
) -> None:
    """Adjectives are listed without their ending, and stand before a noun."""
    for rule in language_rules(language):
        if rule.action != "swap":
            continue
        assert len(rule.values) > 1
        assert len(set(rule.values)) == len(rule.values)
        is_adjective = "ending" in rule.pattern.groupindex
        for value in rule.values:
            word = value + ending if is_adjective else value
            assert rule.pattern.search(sentence.format(word=word)), (rule.operator, value)


def test_every_listed_language_has_a_sentence_for_its_words() -> None:
    """The test above has to be extended for a new language."""
    assert LISTED_LANGUAGES == ["de", "zh"]


def write_config(folder: Path, **settings: Any) -> Path:
    """Write the YAML of a build from ``mill.jsonl``, and return its path.

    Args:
        folder: The folder of the YAML.
        settings: Top-level keys of the YAML. By default, rules make contradictions and nothing
            filters them.
    """
    content = {
        "corpus": {"path": "mill.jsonl"},
        "generate": "rules",
        "filter": "none",
        **settings,
    }
    path = folder / "mill.yaml"
    path.write_text(yaml.safe_dump(content), "utf-8")
    return path


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param(
            {"corpus": {"path": "mill.jsonl", "language": "fr"}},
            "rules for en, de, zh and not for 'fr'; the generator llm asks a model",
            id="no rules",
        ),
        pytest.param(
            {"corpus": {"path": "mill.jsonl", "language": "German"}},
            "language.*ISO 639-1",
            id="no code of a language",
        ),
        pytest.param(
            {"corpus": {"path": "mill.jsonl", "language": "de"}, "filter": {}},
            "gpt2 reads English, not .de.",
            id="a filter for English",
        ),
    ],
)
def test_a_setting_that_a_language_does_not_support_is_refused(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    """Otherwise the build would fail after hours, or make meaningless sentences."""
    with pytest.raises(ConfigError, match=message):
        load_build(write_config(tmp_path, **settings))


@pytest.fixture(scope="module")
def german_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a benchmark that was built from twelve German documents."""
    folder = tmp_path_factory.mktemp("german")
    lines = []
    for number in range(12):
        text = (
            f"Bericht {number}.\n{TEXTS['de']} Nummer {number} wurde am {number + 3}. Mai 1990"
            " geöffnet und nicht verkauft."
        )
        lines.append(json.dumps({"text": text}) + "\n")
    (folder / "mill.jsonl").write_text("".join(lines), "utf-8")
    config = write_config(folder, corpus={"path": "mill.jsonl", "language": "de"})

    exit_code = main(["build", str(config), "--out", str(folder / "out"), "--workers", "1"])

    assert exit_code == 0
    return folder / "out"


def test_the_dataset_card_says_the_language_of_a_build(german_build: Path) -> None:
    """Users of the Hub search for data sets by language."""
    card = (german_build / "README.md").read_text("utf-8")

    front_matter = yaml.safe_load(card.split("---")[1])
    assert front_matter["language"] == ["de"]


def test_the_task_says_the_language_of_a_build(german_build: Path) -> None:
    """Results show the language of the task."""
    assert 'language: "de"' in (german_build / "mill.yaml").read_text("utf-8")


def test_the_manifest_says_the_language_of_a_build(german_build: Path) -> None:
    """A later build from the manifest needs the language."""
    manifest = json.loads((german_build / "manifest.json").read_text("utf-8"))

    assert manifest["settings"]["corpus"]["language"] == "de"


def test_the_rows_of_a_german_build_are_made_by_the_german_rules(german_build: Path) -> None:
    """The generator of a contradiction is recorded, such as ``rules/de/negation added``."""
    with (german_build / "mill.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))

    assert rows
    for row in rows:
        assert row["contradiction_0_generator"].startswith("rules/de/")


def test_every_word_list_is_of_a_language_with_rules() -> None:
    """A list without its entry in the table of languages would never be used."""
    assert {path.stem for path in LANGUAGES.glob("*.tsv")} == set(LISTED_LANGUAGES)


def render_prompt(folder: Path, language: str) -> str:
    """Return the prompt that asks a model about a German sentence.

    Args:
        folder: A folder for the YAML of a judge, which is asked nothing.
        language: The language of the corpus.
    """
    judge = "backend: openai\nmodel: m\nbase_url: http://127.0.0.1:9\n"
    (folder / "judge.yaml").write_text(judge, "utf-8")
    settings = GenerateSettings(judge="judge.yaml")
    generator = LLMGenerator(settings, folder, folder / "answers", language)
    example = Example("one", "Vorher. ", TEXTS["de"], ERROR_TYPES)
    return generator._prompts.render("edits", generator._template_variables(example))


@pytest.mark.parametrize(("language", "is_named"), [("de", True), ("en", False), ("it", True)])
def test_the_prompt_names_a_language_other_than_english(
    tmp_path: Path, language: str, is_named: bool
) -> None:
    """A model answers in English unless it is told otherwise."""
    prompt = render_prompt(tmp_path, language)

    assert (f"the ISO 639-1 code {language}" in prompt) is is_named
