"""The YAML of a build: defaults, short forms, includes, and problems that are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from factor_gen.config import describe_settings, load_build
from factor_gen.settings import (
    ChooseSettings,
    FilterSettings,
    FluencySettings,
    JudgeSettings,
    NliSettings,
    NoCheckSettings,
    OfflineSettings,
    SelectSettings,
    TypesSettings,
)
from lm_factuality.ground.errors import ConfigError

WriteYaml = Callable[..., Path]
"""Writes a text into a YAML file and returns its path."""

MINIMAL_BUILD = "corpus: texts/*.txt\ngenerate: rules\n"
"""The shortest YAML of a build."""


@pytest.fixture
def write(tmp_path: Path) -> WriteYaml:
    """Return a function that writes the YAML of a build, ``my_news.yaml`` by default."""

    def write_yaml(text: str, name: str = "my_news.yaml") -> Path:
        """Write a text into a file, whose folder may be missing."""
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write_yaml


def test_two_lines_configure_a_build(write: WriteYaml, tmp_path: Path) -> None:
    """Only the texts and the generator of contradictions have no default."""
    settings = load_build(write("corpus: texts/*.txt\ngenerate: rules\n"))

    assert settings.name == "my_news"
    assert settings.folder == tmp_path
    assert settings.corpus.path == "texts/*.txt"
    assert settings.generate.generator == "rules"


def test_most_defaults_are_the_values_of_the_paper(write: WriteYaml) -> None:
    """The FACTOR paper has its own measure of fluency, so the limits of ours are not from there."""
    settings = load_build(write("corpus: texts/*.txt\ngenerate: rules\n"))

    five_types = ("predicate", "entity", "circumstance", "coreference", "link")
    assert settings.select == SelectSettings(min_words=10)
    assert settings.types == TypesSettings(types=five_types)
    assert settings.choose == ChooseSettings(contradictions=3)
    assert settings.filter.fluency == FluencySettings(model="gpt2", drop=6.0, form=3.0)


@pytest.mark.parametrize(
    ("line", "fluency"),
    [
        pytest.param("", FluencySettings(model="gpt2"), id="default"),
        pytest.param("filter: none", None, id="none"),
        pytest.param("filter: {fluency: none}", None, id="no fluency"),
        pytest.param(
            "filter: {fluency: {model: tiny}}", FluencySettings(model="tiny"), id="another model"
        ),
    ],
)
def test_the_fluency_filter_is_off_only_if_set_to_none(
    write: WriteYaml, line: str, fluency: FluencySettings | None
) -> None:
    """Without the filter, a model can recognise contradictions that are not fluent."""
    settings = load_build(write(f"corpus: texts/*.txt\ngenerate: rules\n{line}\n"))

    assert settings.filter == FilterSettings(fluency)


MINIMAL_LLM_BUILD = "corpus: texts/*.txt\ngenerate: {generator: llm, judge: a-server}\n"
"""A build in which a model writes the contradictions."""


@pytest.mark.parametrize(
    ("text", "check"),
    [
        pytest.param(MINIMAL_BUILD, OfflineSettings(), id="rules by default"),
        pytest.param(MINIMAL_LLM_BUILD, JudgeSettings(), id="the writer's judge by default"),
        pytest.param(
            MINIMAL_LLM_BUILD + "contradiction: offline", OfflineSettings(), id="rules by name"
        ),
        pytest.param(MINIMAL_BUILD + "contradiction: none", NoCheckSettings(), id="none"),
        pytest.param(
            MINIMAL_BUILD + "contradiction: {kind: judge, judge: other, candidates: 3}",
            JudgeSettings(judge="other", candidates=3),
            id="another judge",
        ),
        pytest.param(
            MINIMAL_BUILD + "contradiction: {kind: nli, model: roberta-large-mnli, threshold: 1}",
            NliSettings(model="roberta-large-mnli", threshold=1.0),
            id="a model",
        ),
        pytest.param(
            "corpus: {path: a, language: de}\ngenerate: rules\nfilter: none",
            NoCheckSettings(),
            id="a language without rules for the check",
        ),
    ],
)
def test_default_contradiction_check_depends_on_the_generator(
    write: WriteYaml, text: str, check: object
) -> None:
    """Rules check the contradictions of rules, and a model checks those of a model."""
    assert load_build(write(text)).contradiction_check == check


@pytest.fixture
def including_config(write: WriteYaml) -> Path:
    """Return a YAML that sets two keys and includes another file for the rest."""
    base = """
filter: none
seed: 7
generate: {generator: rules, per_type: 2}
corpus: {path: in_base.txt, license: MIT}
"""
    write(base, "bases/base.yaml")
    return write("include: bases/base.yaml\nseed: 8\ngenerate: {per_type: 3}\n")


def test_file_overrides_keys_of_its_include(including_config: Path) -> None:
    settings = load_build(including_config)

    assert settings.seed == 8
    assert settings.generate.per_type == 3


def test_unspecified_keys_come_from_the_include(including_config: Path) -> None:
    """A user has to write only the keys that differ."""
    settings = load_build(including_config)

    assert settings.generate.generator == "rules"
    assert settings.filter.fluency is None
    assert settings.corpus.license == "MIT"


def test_another_kind_of_check_drops_the_keys_of_the_included_check(write: WriteYaml) -> None:
    """The check "none" has no threshold, so that an inherited one would be refused."""
    write("contradiction: {kind: nli, model: m, threshold: 0.6}\n", "base.yaml")
    including = write("include: base.yaml\ncorpus: a.txt\ngenerate: rules\ncontradiction: none\n")

    settings = load_build(including)

    assert settings.contradiction_check == NoCheckSettings()


@pytest.mark.parametrize(
    ("stages", "draws", "per_type"),
    [
        pytest.param("generate: rules", 1000, 4, id="rules"),
        pytest.param("generate: {generator: llm, judge: lexical}", 4, 3, id="a model writes"),
        pytest.param(
            "generate: rules\ncontradiction: {kind: judge, judge: lexical}",
            4,
            4,
            id="a model checks",
        ),
    ],
)
def test_fewer_sentences_are_tried_with_a_language_model(
    write: WriteYaml, stages: str, draws: int, per_type: int
) -> None:
    """Each question to a model costs money and time, and rules cost nothing."""
    settings = load_build(write(f"corpus: a.txt\nfilter: none\n{stages}\n"))

    assert settings.select.draws == draws
    assert settings.generate.per_type == per_type


def test_path_is_relative_to_its_yaml_file(including_config: Path) -> None:
    """The included file is in the folder ``bases``, and so is its corpus."""
    assert load_build(including_config).corpus.path == "bases/in_base.txt"


def test_circular_include_is_refused(write: WriteYaml) -> None:
    """Such an include would never end."""
    write("include: my_news.yaml", "base.yaml")

    with pytest.raises(ConfigError, match=r"base\.yaml: include leads back to my_news\.yaml"):
        load_build(write("include: base.yaml"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("generate: rules", "corpus is missing"),
        (
            "corpus: {split: train}\ngenerate: rules",
            r"corpus is \{'split': 'train'\}; expected files, .* or a dataset",
        ),
        (
            "corpus: {path: a, dataset: b}\ngenerate: rules",
            "corpus is .*; expected files, .* or a dataset",
        ),
        ("corpus: {path: 3}\ngenerate: rules", "corpus.path is 3; expected a valid string"),
        (
            "corpus: {path: a, documents: 0}\ngenerate: rules",
            "corpus.documents is 0; expected greater than or equal to 1",
        ),
        (
            "corpus: a",
            r"generate.judge is missing; .*"
            r"generate: \{generator: llm, judge: openai-server\}.*generate: rules",
        ),
        (
            "corpus: a\ngenerate: rule",
            "generate.generator is 'rule'; expected 'llm' or 'rules'",
        ),
        (MINIMAL_BUILD + "selct: {}", "unknown key 'selct'; did you mean select?"),
        (
            MINIMAL_BUILD + "select: {min_word: 3}",
            "unknown key 'min_word' of select; did you mean min_words?",
        ),
        (
            MINIMAL_BUILD + "select: {min_words: true}",
            "select.min_words is True; expected a valid integer",
        ),
        (MINIMAL_BUILD + "select: {min_words: 0}", "select.min_words is 0; expected"),
        (
            MINIMAL_BUILD + "select: {position: middle}",
            "select.position is 'middle'; expected 'facts', 'random', 'first' or 'last'",
        ),
        (
            MINIMAL_BUILD + "select:",
            "select is empty; expected a dictionary or an instance of SelectSettings",
        ),
        (
            MINIMAL_BUILD + "types: [entity, verbs]",
            r"types.types\[1\] is 'verbs'; expected 'predicate', 'entity', 'circumstance',"
            " 'coreference' or 'link'",
        ),
        (
            MINIMAL_BUILD + "types: []",
            r"types.types is \[\]; Tuple should have at least 1 item after validation, not 0",
        ),
        (MINIMAL_BUILD + "filter: off", "filter is False; expected none, or a mapping"),
        (
            MINIMAL_BUILD + "filter: {nli: none}",
            r"filter has nli, .* write contradiction: \{kind: nli",
        ),
        (
            MINIMAL_BUILD + "contradiction: {kind: nli, threshold: 1.5}",
            "contradiction.nli.threshold is 1.5; expected less than or equal to 1",
        ),
        (
            MINIMAL_BUILD + "contradiction: {threshold: 0.5}",
            r"contradiction is \{'threshold': 0.5\}; expected offline, judge, nli or none",
        ),
        (
            MINIMAL_BUILD + "contradiction: deberta",
            r"contradiction is \{'kind': 'deberta'\}; expected offline, judge, nli or none",
        ),
        (
            MINIMAL_BUILD + "contradiction: judge",
            "contradiction.judge is missing; expected the name",
        ),
        (
            "corpus: {path: a, language: de}\ngenerate: rules\nfilter: none\n"
            "contradiction: offline",
            "offline has rules for English, not for 'de'; choose judge",
        ),
        (
            MINIMAL_BUILD + "filter: {fluency: {drop: .inf}}",
            "filter.fluency.drop is inf; expected a finite number",
        ),
        (
            MINIMAL_BUILD + "filter: {fluency: {margin: 0.2}}",
            r"filter.fluency has margin, which does not exist any more; write drop and form in its",
        ),
        (
            MINIMAL_BUILD + "filter: {fluent: none}",
            "unknown key 'fluent' of filter; did you mean fluency?",
        ),
        (
            MINIMAL_BUILD + "choose: {min_types: 4}",
            "choose.min_types is 4; expected at most choose.contradictions, which is 3",
        ),
        (
            MINIMAL_BUILD + "choose: {hide_most_central: 1}",
            "choose.hide_most_central is 1; expected a valid boolean",
        ),
        (
            MINIMAL_BUILD + "choose: {hide_most_central: 'true'}",
            "choose.hide_most_central is 'true'; expected a valid boolean",
        ),
        (
            MINIMAL_BUILD + "types: {tagger: spaci}",
            "types.tagger is 'spaci'; expected 'pattern' or 'spacy'",
        ),
        (MINIMAL_BUILD + "choose: {contradictions: 0}", "choose.contradictions is 0"),
        (
            MINIMAL_BUILD + "name: my corpus",
            "name is 'my corpus'; expected letters, digits, _ and - alone",
        ),
        (
            MINIMAL_BUILD + "filter: {fluency: {context: -1}}",
            "filter.fluency.context is -1; expected greater than or equal to 0",
        ),
        (MINIMAL_BUILD + "seed: -1", "seed is -1; expected greater than or equal to 0"),
        (MINIMAL_BUILD + "shard: 2.5", "shard is 2.5; expected a valid integer"),
        (MINIMAL_BUILD + "engine: spark", "engine is 'spark'; expected 'local' or 'ray'"),
        ("- a list", "expected a mapping of names to values"),
    ],
)
def test_an_error_names_the_file_the_key_and_what_is_expected(
    write: WriteYaml, text: str, problem: str
) -> None:
    """The user can correct the line without the documentation."""
    path = write(text)

    with pytest.raises(ConfigError, match=problem) as caught:
        load_build(path)

    assert str(caught.value).startswith(f"{path}: ")


def test_an_error_names_all_problems_at_once(write: WriteYaml) -> None:
    """The user can correct all of them before the next try."""
    text = "corpus: a\ngenerate: rules\nseed: x\nselect: {min_words: 0}\nchose: {}\n"

    with pytest.raises(ConfigError) as caught:
        load_build(write(text))

    message = str(caught.value)
    assert len(message.splitlines()) == 3
    assert "seed is 'x'; expected" in message
    assert "select.min_words is 0; expected" in message
    assert "unknown key 'chose'" in message


@pytest.fixture
def config_with_absolute_paths(write: WriteYaml, tmp_path: Path) -> Path:
    """Return a YAML with the absolute paths of a corpus and of a model."""
    text = f"""
corpus: {tmp_path}/texts/news.jsonl
generate: rules
filter: {{fluency: {{model: {tmp_path}/models/tiny}}}}
"""
    return write(text)


def test_described_settings_have_no_absolute_paths(
    config_with_absolute_paths: Path, tmp_path: Path
) -> None:
    """The published manifest contains the described settings."""
    described = describe_settings(load_build(config_with_absolute_paths))

    assert str(tmp_path) not in json.dumps(described)
    assert described["corpus"]["path"] == "news.jsonl"
    assert described["filter"] == {
        "fluency": {"model": "tiny", "drop": 6.0, "form": 3.0, "context": 60, "batch_size": 32},
    }
    assert described["contradiction"] == {"kind": "offline"}


def test_described_settings_omit_irrelevant_settings(
    config_with_absolute_paths: Path,
) -> None:
    """Two builds with other numbers of workers have the same manifest."""
    described = describe_settings(load_build(config_with_absolute_paths))

    assert "engine" not in described
    assert "workers" not in described


def test_existing_paths_are_relative_to_the_included_file(write: WriteYaml, tmp_path: Path) -> None:
    """A name such as "gpt" is a path if it exists, and otherwise a name on the Hub."""
    for name in ("nli", "gpt", "spacy", "data"):
        (tmp_path / "bases" / name).mkdir(parents=True)
    base = """
corpus: {dataset: data}
filter: {fluency: {model: gpt}}
contradiction: {kind: nli, model: nli}
types: {tagger: spacy, model: spacy}
generate: {generator: llm, judge: judges/mine.yaml}
"""
    write(base, "bases/base.yaml")

    config = write("include: bases/base.yaml\n")

    settings = load_build(config)

    assert settings.corpus.dataset == "bases/data"
    assert settings.filter == FilterSettings(FluencySettings("bases/gpt"))
    assert settings.contradiction == NliSettings(model="bases/nli")
    assert settings.types.model == "bases/spacy"
    assert settings.generate.judge == "bases/judges/mine.yaml"


@pytest.mark.parametrize("corpus_path", ["~/texts/*.jsonl", "/texts/*.jsonl"])
def test_an_absolute_corpus_path_of_an_included_file_stays_unchanged(
    write: WriteYaml, corpus_path: str
) -> None:
    """A relative path would start from the folder of the included file."""
    write(f"corpus: {corpus_path}\ngenerate: rules\n", "bases/base.yaml")

    settings = load_build(write("include: bases/base.yaml\n"))

    assert settings.corpus.path == corpus_path


def test_names_of_models_and_judges_in_an_included_file_stay_unchanged(write: WriteYaml) -> None:
    """The folder of the included file has no files of these names, so they are no paths."""
    base = """
corpus: a.txt
filter:
  fluency: {model: ~/gpt}
contradiction: {kind: nli, model: some/model}
generate: {generator: llm, judge: a-server}
"""
    write(base, "bases/base.yaml")

    settings = load_build(write("include: bases/base.yaml\n"))

    assert settings.filter == FilterSettings(FluencySettings(model="~/gpt"))
    assert settings.contradiction == NliSettings(model="some/model")
    assert settings.generate.judge == "a-server"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(MINIMAL_BUILD, id="defaults"),
        pytest.param(
            MINIMAL_BUILD + "filter: {fluency: {model: tiny, drop: 0.05, context: 60}}",
            id="fluency filter",
        ),
        pytest.param(
            MINIMAL_BUILD
            + "filter: none\nseed: 3\nselect: {max_words: 50}\n"
            + "choose: {hide_most_central: true, min_types: 2}",
            id="selection and choice",
        ),
        pytest.param(
            "corpus: {path: a.jsonl, text: body, id: name, documents: 9, license: MIT,"
            " source: '/s/'}\ngenerate: rules\ncontradiction: none",
            id="columns of a table",
        ),
        pytest.param(
            "corpus: {dataset: some/news, config: en, revision: v1}\n"
            "types: {tagger: spacy, types: [link, entity]}\n"
            "generate: {generator: llm, judge: a-server, context: 5}\n"
            "contradiction: {kind: nli, revision: abc}",
            id="dataset and models",
        ),
    ],
)
def test_described_settings_can_be_loaded_again(write: WriteYaml, text: str) -> None:
    """The manifest of a benchmark has them as JSON, so that it can be built once more."""
    settings = load_build(write(text))

    described = describe_settings(settings)
    as_json = json.loads(json.dumps(described))

    # The description names the check that the settings lead to.
    expected = replace(settings, contradiction=settings.contradiction_check)
    assert load_build(write(yaml.safe_dump(as_json), "described.yaml")) == expected
