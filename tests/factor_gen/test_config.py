"""A build's YAML: defaults, short forms, includes, and every problem named at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from factor_gen.config import describe_settings, load_build
from factor_gen.settings import (
    ChooseSettings,
    FilterSettings,
    FluencySettings,
    NliSettings,
    SelectSettings,
    TypesSettings,
)
from lm_factuality.ground.errors import ConfigError

Write = Callable[..., Path]
SHORT = "corpus: texts/*.txt\ngenerate: rules\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_yaml(text: str, name: str = "my_news.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write_yaml


def test_two_lines_are_a_build_with_the_papers_values(write: Write, tmp_path: Path) -> None:
    settings = load_build(write(SHORT))
    assert (settings.name, settings.folder) == ("my_news", tmp_path)
    assert settings.corpus.path == "texts/*.txt"
    assert settings.generate.generator == "rules"
    assert settings.select == SelectSettings(min_words=10)
    assert settings.types == TypesSettings()
    assert settings.choose == ChooseSettings(contradictions=3)
    assert settings.filter.nli == NliSettings(threshold=0.6, coreference=0.3)
    assert settings.filter.fluency == FluencySettings(model="gpt2", margin=0.2)


@pytest.mark.parametrize(
    ("lines", "nli", "fluency"),
    [
        ("filter: none", None, None),
        ("filter: {nli: none}", None, FluencySettings()),
        ("filter: {fluency: none, nli: {threshold: 0.5}}", NliSettings(threshold=0.5), None),
        (
            "filter: {nli: {model: roberta-large-mnli, threshold: 1}}",
            NliSettings("roberta-large-mnli", threshold=1.0),
            FluencySettings(),
        ),
    ],
)
def test_filters_are_on_unless_none(
    write: Write, lines: str, nli: NliSettings | None, fluency: FluencySettings | None
) -> None:
    settings = load_build(write(f"{SHORT}{lines}\n"))
    assert (settings.filter.nli, settings.filter.fluency) == (nli, fluency)


def test_an_include_holds_where_the_file_says_nothing(write: Write) -> None:
    write(
        "filter: none\nseed: 7\ngenerate: {generator: rules, per_type: 2}\ncorpus: {path: in_base.txt, license: MIT}",
        "bases/base.yaml",
    )
    own = write("include: bases/base.yaml\nseed: 8\ngenerate: {per_type: 3}\n")
    settings = load_build(own)
    assert (settings.seed, settings.generate.per_type, settings.generate.generator) == (
        8,
        3,
        "rules",
    )
    assert settings.filter.nli is None
    assert settings.corpus.license == "MIT"
    assert settings.corpus.path == "bases/in_base.txt"  # relative to the file that says it


def test_an_include_that_comes_back_is_refused(write: Write) -> None:
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
            r"generate.judge is missing; .*generate: \{generator: llm, judge: openai-server\}.*generate: rules",
        ),
        (
            "corpus: a\ngenerate: rule",
            "generate.generator is 'rule'; expected 'llm' or 'rules'",
        ),
        (SHORT + "selct: {}", "unknown key 'selct'; did you mean select?"),
        (
            SHORT + "select: {min_word: 3}",
            "unknown key 'min_word' of select; did you mean min_words?",
        ),
        (
            SHORT + "select: {min_words: true}",
            "select.min_words is True; expected a valid integer",
        ),
        (SHORT + "select: {min_words: 0}", "select.min_words is 0; expected"),
        (
            SHORT + "select: {position: middle}",
            "select.position is 'middle'; expected 'random', 'first' or 'last'",
        ),
        (
            SHORT + "select:",
            "select is empty; expected a dictionary or an instance of SelectSettings",
        ),
        (
            SHORT + "types: [entity, verbs]",
            r"types.types\[1\] is 'verbs'; expected 'predicate', 'entity', 'circumstance', 'coreference' or 'link'",
        ),
        (
            SHORT + "types: []",
            r"types.types is \[\]; Tuple should have at least 1 item after validation, not 0",
        ),
        (SHORT + "filter: off", "filter is False; expected none, or a mapping"),
        (
            SHORT + "filter: {nli: {threshold: 1.5}}",
            "filter.nli.threshold is 1.5; expected less than or equal to 1",
        ),
        (
            SHORT + "filter: {nli: {threshold: .nan}}",
            "filter.nli.threshold is nan; expected a finite number",
        ),
        (
            SHORT + "filter: {fluency: {margin: .inf}}",
            "filter.fluency.margin is inf; expected a finite number",
        ),
        (SHORT + "filter: {nil: none}", "unknown key 'nil' of filter; did you mean nli?"),
        (
            SHORT + "choose: {min_types: 4}",
            "choose.min_types is 4; expected at most choose.contradictions, which is 3",
        ),
        (
            SHORT + "choose: {hide_most_central: 1}",
            "choose.hide_most_central is 1; expected a valid boolean",
        ),
        (
            SHORT + "choose: {hide_most_central: 'true'}",
            "choose.hide_most_central is 'true'; expected a valid boolean",
        ),
        (
            SHORT + "types: {tagger: spaci}",
            "types.tagger is 'spaci'; expected 'pattern' or 'spacy'",
        ),
        (SHORT + "choose: {contradictions: 0}", "choose.contradictions is 0"),
        (SHORT + "name: my corpus", "name is 'my corpus'; expected letters, digits, _ and - alone"),
        (
            SHORT + "filter: {fluency: {context: -1}}",
            "filter.fluency.context is -1; expected greater than or equal to 0",
        ),
        (SHORT + "seed: -1", "seed is -1; expected greater than or equal to 0"),
        (SHORT + "shard: 2.5", "shard is 2.5; expected a valid integer"),
        (SHORT + "engine: spark", "engine is 'spark'; expected 'local' or 'ray'"),
        ("- a list", "expected a mapping of names to values"),
    ],
)
def test_what_is_wrong_is_named(write: Write, text: str, problem: str) -> None:
    path = write(text)
    with pytest.raises(ConfigError, match=problem) as caught:
        load_build(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_all_problems_are_told_at_once(write: Write) -> None:
    with pytest.raises(ConfigError) as caught:
        load_build(
            write("corpus: a\ngenerate: rules\nseed: x\nselect: {min_words: 0}\nchose: {}\n")
        )
    assert len(str(caught.value).splitlines()) == 3


def test_the_description_is_json_without_this_machines_folders(
    write: Write, tmp_path: Path
) -> None:
    model = tmp_path / "models" / "tiny"
    path = write(
        f"corpus: {tmp_path}/texts/news.jsonl\ngenerate: rules\nfilter: {{nli: none, fluency: {{model: {model}}}}}\n"
    )
    about = describe_settings(load_build(path))
    assert str(tmp_path) not in json.dumps(about)
    assert about["corpus"]["path"] == "news.jsonl"
    assert about["filter"] == {
        "nli": "none",
        "fluency": {"model": "tiny", "margin": 0.2, "context": 0, "batch_size": 32},
    }
    assert "engine" not in about
    assert "workers" not in about


def test_all_paths_of_an_include_start_from_it(write: Write, tmp_path: Path) -> None:
    for name in ("nli", "gpt", "spacy", "data"):
        (tmp_path / "bases" / name).mkdir(parents=True)
    write(
        "corpus: {dataset: data}\nfilter: {nli: {model: nli}, fluency: {model: gpt}}\ntypes: {tagger: spacy, model: spacy}\n"
        "generate: {generator: llm, judge: judges/mine.yaml, prompts: my_prompts}\n",
        "bases/base.yaml",
    )
    settings = load_build(write("include: bases/base.yaml\n"))
    assert settings.corpus.dataset == "bases/data"
    assert settings.filter == FilterSettings(NliSettings("bases/nli"), FluencySettings("bases/gpt"))
    assert settings.types.model == "bases/spacy"
    assert (settings.generate.judge, settings.generate.prompts) == (
        "bases/judges/mine.yaml",
        "bases/my_prompts",
    )


@pytest.mark.parametrize("path", ["~/texts/*.jsonl", "/texts/*.jsonl"])
def test_names_and_whole_paths_of_an_include_stay_as_they_are(write: Write, path: str) -> None:
    write(
        f"corpus: {path}\nfilter: {{nli: {{model: some/model}}, fluency: {{model: ~/gpt}}}}\n"
        "generate: {generator: llm, judge: a-server}\n",
        "bases/base.yaml",
    )
    settings = load_build(write("include: bases/base.yaml\n"))
    assert settings.corpus.path == path
    assert settings.filter == FilterSettings(NliSettings("some/model"), FluencySettings("~/gpt"))
    assert settings.generate.judge == "a-server"


@pytest.mark.parametrize(
    "text",
    [
        SHORT,
        SHORT + "filter: {nli: none, fluency: {model: tiny, margin: 0.05, best: 2, context: 60}}",
        SHORT
        + "filter: none\nseed: 3\nselect: {max_words: 50}\nchoose: {hide_most_central: true, min_types: 2}",
        "corpus: {path: a.jsonl, text: body, id: name, documents: 9, license: MIT, source: '/s/'}\ngenerate: rules\nfilter: {nli: none}",
        "corpus: {dataset: some/news, config: en, revision: v1}\ntypes: {tagger: spacy, types: [link, entity]}\n"
        "generate: {generator: llm, judge: a-server, context: 5}\nfilter: {nli: {revision: abc}}",
    ],
)
def test_what_a_manifest_says_can_be_built(write: Write, text: str) -> None:
    settings = load_build(write(text))
    for about in (describe_settings(settings), json.loads(json.dumps(describe_settings(settings)))):
        assert load_build(write(yaml.safe_dump(about), "again.yaml")) == settings
