"""Languages: which one a text is in, what is refused, and what the rules of German and Chinese
write."""

import csv
import json
import random
import re
from pathlib import Path

import pytest
import yaml

from factor_gen.cli import main
from factor_gen.config import load_build
from factor_gen.corpus import split_into_sentences
from factor_gen.generate.llm.generator import PROMPTS_FOLDER, LLMGenerator
from factor_gen.generate.llm.parse import Contradictions, candidates_of_reply
from factor_gen.generate.rules.edits import apply_replacements
from factor_gen.generate.rules.listed import LANGUAGES, edit_by_word_lists, language_rules
from factor_gen.language import LANGUAGES_WITH_RULES, check_language, identify_language
from factor_gen.records import ERROR_TYPES, LINK, Example
from factor_gen.select import SelectStage
from factor_gen.settings import GenerateSettings, SelectSettings
from factor_gen.text.sentences import sentence_spans
from judges.answers import Answer
from judges.typed import read_reply
from lm_factuality.ground.errors import ConfigError, DataError

TEXTS = {
    "en": "The old mill stands beside the river, and the council wants to sell it before the winter comes.",
    "de": "Die alte Mühle steht am Fluss, und der Gemeinderat will sie verkaufen, bevor der Winter kommt.",
    "fr": "Le vieux moulin se trouve au bord de la rivière, et le conseil veut le vendre avant l'hiver.",
    "es": "El viejo molino está junto al río, y el ayuntamiento quiere venderlo antes de que llegue el invierno.",
    "zh": "这座老磨坊坐落在河边，镇议会想在冬天到来之前把它卖掉。",
    "ru": "Старая мельница стоит у реки, и совет хочет продать её до наступления зимы.",
    "ja": "この古い水車小屋は川のそばにあり、町議会は冬が来る前に売りたいと考えている。",
}


@pytest.mark.parametrize("language", TEXTS)
def test_the_language_of_a_text_is_told(language):
    assert identify_language(TEXTS[language]) == language
    assert (
        identify_language("... " * 500 + TEXTS[language] * 5 + "... " * 500) == language
    )  # by its middle


def test_a_corpus_in_another_language_is_refused_with_what_to_write():
    german = [Example(str(number), TEXTS["de"]) for number in range(9)]
    with pytest.raises(
        DataError,
        match=r"9 of the first 10 documents are in 'de', expected 'en'; name it: .*language: de",
    ):
        list(check_language([*german, Example("en", TEXTS["en"])], "en"))
    with pytest.raises(
        DataError, match=r"in 'fr', expected 'en'; there are no rules for it: ask a model"
    ):
        list(check_language([Example("fr", TEXTS["fr"])], "en"))
    list(check_language(german, "de"))
    list(check_language([Example("", "3 + 4")], "de"))  # nothing speaks against it
    list(
        check_language([*german, *[Example(str(each), TEXTS["en"]) for each in range(5)]], "en")
    )  # a mixture: a third is enough


def test_a_sentence_in_another_language_is_passed_over():
    text = f"Kapitel 1. {TEXTS['en']}\n{TEXTS['de']}\n{TEXTS['fr']}\n"
    for seed in range(5):
        example = SelectStage(SelectSettings(), seed, "de").run(
            list(split_into_sentences([Example("one", text)], language="de"))
        )[0]
        assert example.completion == TEXTS["de"]
    left = SelectStage(SelectSettings(), 0, "es").run(
        list(split_into_sentences([Example("one", text)], language="es"))
    )[0]
    assert left.unused == "select: no sentence in the language es"


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("de", "Sie kam im 19. Jahrhundert. Sie ging am 3. Mai z. B. nach Hause.", ["Sie kam im 19. Jahrhundert.", "Sie ging am 3. Mai z. B. nach Hause."]),
        ("zh", "他来了。她走了！“真的吗？”是的。", ["他来了。", "她走了！", "“真的吗？”", "是的。"]),
        ("en", "It was 19. Years went by.", ["It was 19.", "Years went by."]),
    ],
)  # fmt: skip
def test_sentences_end_as_the_language_has_it(language, text, expected):
    assert [text[start:end] for start, end in sentence_spans(text, language)] == expected


@pytest.mark.parametrize(
    ("language", "sentence", "reason"),
    [
        ("de", "„Die Mühle“, sagte er, „wird im Herbst an die Stadt verkauft.“", None),
        (
            "de",
            "Die Mühle „am Fluss wird im Herbst für viel Geld an die Stadt verkauft.",
            "balanced",
        ),
        ("zh", "镇议会想在今年冬天到来之前把这座老磨坊卖掉。", None),
        ("zh", "镇议会想卖掉它。", "10 words"),
        ("zh", "镇议会想在冬天到来之前把这座老磨坊卖掉", "ends with"),
        ("zh", "镇议会想在（今年冬天到来之前把这座老磨坊卖掉。", "balanced"),
        ("es", "¿Por qué quiere el ayuntamiento vender el viejo molino antes del invierno?", None),
    ],
)
def test_what_a_sentence_of_the_language_looks_like(language, sentence, reason):
    (document,) = split_into_sentences([Example("one", f"x\n{sentence}")], language=language)
    (example,) = SelectStage(SelectSettings(position="last"), 0, language).run([document])
    assert example.completion == sentence if reason is None else reason in example.unused


def german(sentence, operator="", tries=5):
    """What the German lists make of a sentence over a few seeds."""
    return {
        apply_replacements(sentence, edit.replacements)
        for seed in range(tries)
        for edit in edit_by_word_lists(sentence, "de", random.Random(seed))
        if edit.operator.endswith(operator)
    }


@pytest.mark.parametrize(
    ("language", "sentence", "edits"),
    [
        ("de", "Das Paket wurde am 3. Oktober 1990 in Berlin veröffentlicht.", {"month", "day", "year", "city", "opposite", "negation added"}),
        ("de", "Sie können die Datei öffnen, weil die alte Version nicht gesperrt ist.", {"opposite", "cause", "property", "negation added", "negation removed"}),
        # schließen ... an; over 300
        ("de", "Bitte schließen Sie das Gerät über 300 Meter weit an.", set()),
        ("de", "Er sagte: „Die alte Mühle ist immer links.“", set()),  # quoted
        ("de", "Sie stehen auf keiner der schwarzen Listen von Version 3 Abschnitt 2.", set()),
        ("zh", "这个软件包于1990年10月3日在北京发布。", {"year", "month", "day", "city"}),
        ("zh", "因为旧的版本无法使用，您可以打开左侧的文件。", {"cause", "property", "ability", "opposite", "side"}),
        ("zh", "它是一个自由的操作系统。", {"negation added"}),
        ("zh", "他住在上海路，请看第3章和超过5个文件。", set()),
    ],
)  # fmt: skip
def test_what_the_lists_find(language, sentence, edits):
    found = list(edit_by_word_lists(sentence, language, random.Random(1)))
    assert {each.operator.rpartition("/")[2] for each in found} == edits
    assert all(apply_replacements(sentence, each.replacements) != sentence for each in found)


@pytest.mark.parametrize(
    ("sentence", "text"),
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
        ("Das dauert 30 Minuten.", r"Das dauert (?!30)[1-4]\d Minuten."),
        ("Er baute es im Jahr 1990.", r"Er baute es im Jahr 19(?!90)(8[6-9]|9[0-4])."),
    ],
)
def test_german_keeps_its_endings_and_capitals(sentence, text):
    found = german(sentence, tries=20)
    assert any(re.fullmatch(text, each) for each in found), found


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("Die Marke kann verwandt werden.", "Die Marke kann nicht verwandt werden."),
        ("Die Marke kann im Text verwandt werden.", "Die Marke kann im Text nicht verwandt werden."),
        ("Die Datei wurde gelöscht.", "Die Datei wurde nicht gelöscht."),
        ("Das Format wird vom Programm unterstützt.", "Das Format wird vom Programm nicht unterstützt."),
        ("Der Name muss im Text übersetzt werden.", "Der Name muss im Text nicht übersetzt werden."),
        ("Die Liste konnte dort benutzt worden sein.", "Die Liste konnte dort nicht benutzt worden sein."),
        ("Die Liste soll dort sein und kann heute umgesetzt werden.", "Die Liste soll dort sein und kann heute nicht umgesetzt werden."),
        ("Die Marke kann hinzugelegt werden.", "Die Marke kann nicht hinzugelegt werden."),
        ("Es ist klar, welche Pakete installiert werden sollen.", None),
        ("Die Marke kann durchsucht werden.", None),  # no participle that is known
        ("Das Programm muss überhaupt.", None),
    ],
)  # fmt: skip
def test_a_german_denial_stands_before_the_participle_and_what_goes_with_it(sentence, text):
    found = german(sentence, "negation added")
    assert found == ({text} if text else set())


@pytest.mark.parametrize("language", [each for each in LANGUAGES_WITH_RULES if each != "en"])
def test_every_line_of_a_list_finds_its_own_members(language):
    for line in language_rules(language):
        assert line.error_type in ERROR_TYPES
        if line.action == "swap":
            assert len(set(line.values)) == len(line.values) > 1
            for member in line.values:
                shown = f"{member}e Dinge" if "ending" in line.pattern.groupindex else member
                assert line.pattern.search(
                    f"x {shown} y" if language == "de" else f"甲{member}了"
                ), (line.operator, member)


def _build(tmp_path: Path, **settings: object) -> Path:
    path = tmp_path / "mill.yaml"
    path.write_text(
        yaml.safe_dump(
            {"corpus": {"path": "mill.jsonl"}, "generate": "rules", "filter": "none", **settings}
        ),
        "utf-8",
    )
    return path


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"corpus": {"path": "mill.jsonl", "language": "fr"}}, r"rules for en, de, zh and not for 'fr'; the generator llm asks a model"),
        ({"corpus": {"path": "mill.jsonl", "language": "German"}}, r"language.*ISO 639-1"),
        ({"corpus": {"path": "mill.jsonl", "language": "de"}, "filter": {"nli": "none"}}, r"filter: gpt2 reads English, not .de."),
    ],
)  # fmt: skip
def test_what_is_not_there_for_a_language_is_refused(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        load_build(_build(tmp_path, **settings))


def test_a_german_build_says_its_language_everywhere(tmp_path):
    texts = [
        f"Bericht {number}.\n{TEXTS['de']} Nummer {number} wurde am {number + 3}. Mai 1990 geöffnet und nicht verkauft."
        for number in range(12)
    ]
    (tmp_path / "mill.jsonl").write_text(
        "".join(json.dumps({"text": each}) + "\n" for each in texts), "utf-8"
    )
    config = _build(tmp_path, corpus={"path": "mill.jsonl", "language": "de"})
    assert main(["build", str(config), "--out", str(tmp_path / "out"), "--workers", "1"]) == 0
    assert yaml.safe_load((tmp_path / "out" / "README.md").read_text("utf-8").split("---")[1])[
        "language"
    ] == ["de"]
    assert 'language: "de"' in (tmp_path / "out" / "mill.yaml").read_text("utf-8")
    assert (
        json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))["settings"]["corpus"][
            "language"
        ]
        == "de"
    )
    rows = list(csv.DictReader((tmp_path / "out" / "mill.csv").open(encoding="utf-8")))
    assert rows
    assert all(row["contradiction_0_generator"].startswith("rules/de/") for row in rows)


@pytest.mark.parametrize(
    "path",
    sorted(PROMPTS_FOLDER.rglob("*.jinja")),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_the_examples_in_the_prompts_parse_by_their_own_rules(path):
    """What the prompts show as good answers has to be good, in every language."""
    _, *shown, _ = path.read_text(encoding="utf-8").split("##\n")
    for each in shown:
        before, _, rest = each.partition("Sentence: " if path.stem == LINK else "Completion: ")
        completion, _, answer = rest.partition("\n")
        found = candidates_of_reply(
            read_reply(Answer(answer, "stop"), Contradictions, {}), completion, path.stem
        )
        assert len(found.candidates) == answer.count('"contradiction":'), found.lost
        assert identify_language(completion) in ("", path.parent.name)
        assert path.stem == LINK or len(before.split("Context: ")) == 2


def test_every_language_of_the_prompts_has_all_types():
    for folder in PROMPTS_FOLDER.iterdir():
        assert {path.stem for path in folder.glob("*.jinja")} == set(ERROR_TYPES), folder
    assert {path.stem for path in LANGUAGES.glob("*.tsv")} == {*LANGUAGES_WITH_RULES} - {"en"}


@pytest.mark.parametrize(
    ("language", "begin", "code"),
    [
        ("de", "Gegeben sind ein Kontext", False),
        ("en", "You are given a context", False),
        ("it", "You are given a context", True),
    ],
)
def test_a_model_is_asked_in_the_language_where_there_are_prompts(tmp_path, language, begin, code):
    (tmp_path / "judge.yaml").write_text(
        "backend: openai\nmodel: m\nbase_url: http://127.0.0.1:9\n", "utf-8"
    )
    generator = LLMGenerator(
        GenerateSettings(judge="judge.yaml"), tmp_path, tmp_path / "answers", language
    )
    example = Example("one", "Vorher. ", TEXTS["de"], ERROR_TYPES)
    for error_type in ERROR_TYPES:
        asked = generator._prompts.render(
            error_type, generator._template_variables(example, error_type)
        )
        assert asked.endswith(TEXTS["de"])
        assert (f"the ISO 639-1 code {language}" in asked) == code
        assert error_type == LINK or asked.startswith(begin)
