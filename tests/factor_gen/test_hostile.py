"""No text crashes a build or comes out of it malformed: hostile documents through all stages, and
read back as a user reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from factor_gen.config import load_build
from factor_gen.pipeline import build
from factor_gen.records import replace_surrogates
from lm_factuality.benchmarks.factor.corpus import parse_corpus
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.cli.validation import check_targets as validate

START = "Anna Brown was born in London in 1975. Peter Smith was her teacher in Berlin."
END = "In 1998 she moved from London to Paris because her mother wanted to study chemistry before the war began there."
HOSTILE = {
    "null": "A \x00 stands here.\x00\n",
    "control": "Bells \x07 and \x1b[31m red ones \x7f here.\n",
    "cr": "\r\nLine\rreturn.\r\n",
    "quotes": 'He said "hi", and, ""so"" on,\n',
    "curly": "“" * 400,
    "formula": "=cmd|'/c calc'!A1\n",
    "comma": ",,,;;;\t\t\n",
    "rtl": "\u0645\u0631\u062d\u0628\u0627. \u202eabc\u202c ",
    "emoji": "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \n",
    "html": "<p class='x'>&nbsp;<script>alert(1)</script></p>\n",
    "lines": "One.\u2028Two.\u2029Three.\x0b\x0c\x85",
    "bom": "\ufeff\ufffe",
    "spaces": "\u00a0\u2003\u200b \u3000\n",
    "half": "\ud800 \udc00 ",
    "combining": "Z" + "\u0301" * 300 + " ",
    "long word": "x" * 20_000 + " ",
    "brackets": "(" * 500 + "[" * 500,
    "jinja": "{{ 7 * 7 }} {% include '/etc/passwd' %} ",
    "yaml": "---\n- !!python/object:os\n...\n",
    "backslash": "\\n\\x00\\u0000 %s %d {0} ",
    "fullwidth": "Ｉｎ １９９８ ｓｈｅ ｍｏｖｅｄ．",
    "digits": "\u0661\u0669\u0669\u0668 ² ③ ",
    "dots": "." * 900,
}
ALONE = {
    "empty": "",
    "word": "word",
    "white": " \n\t\u2028",
    "letters": "x" * 1_000_000,
    "marks": "?!.,;" * 2_000,
    "megabyte": "word " * 200_000,
}


def documents() -> dict[str, str]:
    """Each fragment before, between, after and inside good sentences; and each by itself."""
    found = dict(ALONE)
    for name, text in HOSTILE.items():
        found |= {
            f"{name} alone": text,
            f"{name} first": f"{text} {START} {END}",
            f"{name} between": f"Q {START} {text} {END}",
            f"{name} last": f"R {name} {START} {END} {text}",
            f"{name} inside": f"S {START} {END.replace(' moved ', f' moved {text} ')}",
            f"{name} touching": f"T {START}\n{text}{END}{text}",
        }
    return found


def load(config: Mapping[str, object]) -> list[Row]:
    loaded = load_corpus(parse_corpus({"task": "t", **config}))
    assert not loaded.problems
    assert not any(row.problem for row in loaded.rows)
    return list(loaded.rows)


@pytest.mark.timeout(120)
def test_a_corpus_of_hostile_texts_becomes_a_sound_benchmark(tmp_path: Path) -> None:
    texts = documents()
    lines = [json.dumps({"id": name, "text": text}) for name, text in texts.items()]
    lines.append(json.dumps({"id": 'bad \ud800 \x00 "id",\n', "text": f"U {START} {END}"}))
    (tmp_path / "hostile.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = tmp_path / "hostile.yaml"
    path.write_text(
        "corpus: hostile.jsonl\nselect: {once: false}\ngenerate: rules\nfilter: none\n",
        encoding="utf-8",
    )
    built = build(replace(load_build(path), workers=1), tmp_path / "out")
    assert built.documents == len(lines)
    assert built.rows > len(lines) / 3  # or little would be tested
    assert built.rows + sum(built.unused.values()) == len(lines)

    columns = {"columns": {"prefix": "full_prefix"}}
    rows = load({"dataset_path": str(built.files["csv"]), "metadata": columns})
    parquet = load({"dataset_path": str(built.files["parquet"]), "metadata": columns})
    assert [replace(row, location="") for row in parquet] == [
        replace(row, location="") for row in rows
    ]
    assert len(rows) == built.rows
    ids = {replace_surrogates(name): replace_surrogates(text) for name, text in texts.items()} | {
        replace_surrogates('bad \ud800 \x00 "id",\n'): f"U {START} {END}"
    }
    for row in rows:
        sound(row.prefix, row.choices, ids[row.doc_id])
    with built.files["unused"].open(encoding="utf-8", newline="\n") as unused:
        assert {json.loads(line)["doc_id"] for line in unused} == set(ids) - {
            row.doc_id for row in rows
        }
    assert {"null first", "emoji between", "html first", "formula between"} <= {
        row.doc_id for row in rows
    }
    (report,) = validate([str(built.files["task"])])
    assert [
        each for each in report.problems if "U+FFFD" not in each
    ] == []  # which stands for the halves of pairs
    assert report.num_rows == built.rows


def sound(prefix: str, choices: tuple[str, ...], text: str) -> None:
    """A row is the beginning of its document, the sentence that follows, and three others that are
    text as well."""
    assert text.startswith(prefix + choices[0])
    assert prefix.strip()
    assert prefix[-1].isspace()
    assert len({" ".join(choice.split()) for choice in choices}) == len(choices) == 4
    for choice in choices:
        assert choice == choice.strip() == replace_surrogates(choice)
        assert len(choice.splitlines()) == 1
