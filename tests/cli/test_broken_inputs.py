"""Every kind of broken YAML or data gets an error that names the place, what was found and what was
expected."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from lm_factuality.cli import main
from tests.conftest import TASKS, example_row

BASE = f"include: {TASKS / 'factor' / '_factor.yaml'}\ntask: t\n"
ON_ROWS = BASE + "dataset_path: rows.jsonl\n"


def jsonl(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


SOUND = jsonl(example_row())
OTHER = example_row(doc_id="d2", turncated_prefixes="The mill burned down. ")

# name: (YAML, data file, its content, what the report must say)
KINDS = {
    "not YAML": (
        "task: [",
        "rows.jsonl",
        SOUND,
        ["t.yaml: cannot be loaded as a task's YAML: ParserError"],
    ),
    "YAML not UTF-8": (
        b"task: caf\xe9\n",
        "rows.jsonl",
        SOUND,
        ["t.yaml: ", "unacceptable character"],
    ),
    "include that does not exist": (
        "include: gone.yaml\ntask: t\n",
        "rows.jsonl",
        SOUND,
        ["t.yaml: ", "No such file or directory", "gone.yaml"],
    ),
    "no base": ("task: t\ndataset_path: rows.jsonl\n", "rows.jsonl", SOUND, ["not a FACTOR task"]),
    "unknown key": (
        ON_ROWS + "doc_to_chioce: x\n",
        "rows.jsonl",
        SOUND,
        ["unknown key 'doc_to_chioce'; did you mean doc_to_choice?"],
    ),
    "metric that is not implemented": (
        ON_ROWS + "metric_list: [{metric: factor_accuracy}]\n",
        "rows.jsonl",
        SOUND,
        ["metric_list: no score 'factor_accuracy'; did you mean factor_acc?"],
    ),
    "no data named": (BASE, "rows.jsonl", SOUND, ["no data: give dataset_path"]),
    "file that does not exist": (
        BASE + "dataset_path: gone.csv\n",
        "rows.jsonl",
        SOUND,
        ["gone.csv: no such file"],
    ),
    "wrong output type": (
        ON_ROWS + "output_type: generate_until\n",
        "rows.jsonl",
        SOUND,
        ["output_type is 'generate_until'; expected 'multiple_choice'"],
    ),
    "wrong spacing": (
        ON_ROWS + "metadata: {spacing: tidy}\n",
        "rows.jsonl",
        SOUND,
        ["metadata.spacing is 'tidy'; expected 'published' or 'normalised'"],
    ),
    "wrong window": (
        ON_ROWS + "metadata: {window: many}\n",
        "rows.jsonl",
        SOUND,
        ["metadata.window is 'many'; expected a number of"],
    ),
    "unknown column role": (
        ON_ROWS + "metadata: {columns: {prefx: a}}\n",
        "rows.jsonl",
        SOUND,
        ["unknown key 'prefx' of metadata.columns"],
    ),
    "column that is not there": (
        ON_ROWS + "metadata: {columns: {completion: truth}}\n",
        "rows.jsonl",
        SOUND,
        ["no column 'truth'", "'completion'"],
    ),
    "missing column": (
        ON_ROWS,
        "rows.jsonl",
        jsonl({"prefix": "a", "completion": "b"}),
        ["no column 'contradiction_0'"],
    ),
    "bare word in a template": (
        ON_ROWS + "doc_to_text: prefx\ndoc_to_choice: '{{[completion, contradiction_0]}}'\n",
        "rows.jsonl",
        SOUND,
        ["doc_to_text: no column 'prefx'"],
    ),
    "unknown variable in a template": (
        ON_ROWS + "doc_to_text: completion\ndoc_to_choice: '{{[complition, contradiction_0]}}'\n",
        "rows.jsonl",
        SOUND,
        ["doc_to_choice uses 'complition', which is not a column"],
    ),
    "choices that are no list": (
        ON_ROWS + "doc_to_text: completion\ndoc_to_choice: completion\n",
        "rows.jsonl",
        SOUND,
        ["expected a list of texts"],
    ),
    "gold without choices": (
        ON_ROWS + "doc_to_target: label\n",
        "rows.jsonl",
        SOUND,
        ["give doc_to_text and doc_to_choice with doc_to_target"],
    ),
    "options for a file": (
        ON_ROWS + "dataset_kwargs: {sep: ';'}\n",
        "rows.jsonl",
        SOUND,
        ["dataset_kwargs: found sep, expected none for a file on this machine"],
    ),
    "an address": (
        BASE + "dataset_path: http://127.0.0.1/rows.csv\n",
        "rows.jsonl",
        SOUND,
        ["found the address 'http://127.0.0.1/rows.csv', which is not read"],
    ),
    "more choices than letters": (
        f"include: {TASKS / 'factor' / '_factor_chat.yaml'}\ntask: t\n"
        "dataset_path: rows.jsonl\nmetadata: {protocol: letters}\n",
        "rows.jsonl",
        jsonl(example_row(**{f"contradiction_{number}": f"No. {number}." for number in range(26)})),
        ["rows.jsonl:1: 27 choices, expected at most 26"],
    ),
    "gold out of range": (
        ON_ROWS
        + "doc_to_text: turncated_prefixes\ndoc_to_choice: '{{[completion, contradiction_0]}}'\ndoc_to_target: 2\n",
        "rows.jsonl",
        SOUND,
        ["rows.jsonl:1: the gold is no choice (found 2), expected an index from 0 to 1"],
    ),
    "gold that is no choice": (
        ON_ROWS
        + "doc_to_text: turncated_prefixes\ndoc_to_choice: '{{[completion, contradiction_0]}}'\ndoc_to_target: doc_id\n",
        "rows.jsonl",
        SOUND,
        ["rows.jsonl:1: the gold is no choice"],
    ),
    "demonstrations": (
        ON_ROWS + "num_fewshot: 5\n",
        "rows.jsonl",
        SOUND,
        ["num_fewshot is 5; expected 0"],
    ),
    "metadata that is no mapping": (
        ON_ROWS + "metadata: 3\n",
        "rows.jsonl",
        SOUND,
        ["t.yaml: metadata: found a int"],
    ),
    "columns and templates": (
        ON_ROWS
        + "doc_to_text: turncated_prefixes\ndoc_to_choice: [completion, contradiction_0]\nmetadata: {columns: {error_types: [a]}}\n",
        "rows.jsonl",
        SOUND,
        ["metadata.columns.error_types and doc_to_text say the same thing twice"],
    ),
    "half a surrogate pair": (
        ON_ROWS,
        "rows.jsonl",
        SOUND + json.dumps(example_row(completion="It was \ud83d there.")) + "\n",
        ["rows.jsonl:2: holds half of a surrogate pair"],
    ),
    "contradiction that some rows lack": (
        ON_ROWS,
        "rows.jsonl",
        jsonl(
            {key: value for key, value in OTHER.items() if key != "contradiction_2"}, example_row()
        ),
        ["rows.jsonl:1: choice 3 is missing"],
    ),
    "spacing that makes choices identical": (
        ON_ROWS + "metadata: {spacing: normalised}\n",
        "rows.jsonl",
        jsonl(example_row(completion="It fell.", contradiction_0="It fell .")),
        ["rows.jsonl:1: a contradiction equals the true completion"],
    ),
    "empty choice": (
        ON_ROWS,
        "rows.jsonl",
        jsonl(OTHER, example_row(contradiction_1=" ")),
        ["rows.jsonl:2: choice 2 is empty"],
    ),
    "one distinct choice": (
        ON_ROWS,
        "rows.jsonl",
        jsonl(example_row(**{f"contradiction_{i}": example_row()["completion"] for i in range(3)})),
        ["rows.jsonl:1: 1 distinct choice, expected at least 2"],
    ),
    "bad encoding": (
        BASE + "dataset_path: rows.csv\n",
        "rows.csv",
        b"prefix,completion,contradiction_0\na,caf\xe9,c\nb,d,\xff\n",
        ["rows.csv:2: byte 0xe9 is not UTF-8"],
    ),
    "cells missing": (
        BASE + "dataset_path: rows.csv\n",
        "rows.csv",
        "prefix,completion,contradiction_0\na,b\nc,d,e\nf,g\n",
        ["rows.csv:2: 2 cells, expected 3", "rows.csv:4: 2 cells, expected 3"],
    ),
    "quote that is not closed": (
        BASE + "dataset_path: rows.csv\n",
        "rows.csv",
        'prefix,completion,contradiction_0\na,b,"c\n',
        ["not valid CSV"],
    ),
    "empty file": (BASE + "dataset_path: rows.csv\n", "rows.csv", "", ["rows.csv: no rows"]),
    "column named twice": (
        BASE + "dataset_path: rows.csv\n",
        "rows.csv",
        "prefix,prefix,completion,contradiction_0\na,b,c,d\n",
        ["columns named more than once: prefix"],
    ),
}


def write(path: Path, content: str | bytes) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))


@pytest.mark.parametrize("kind", KINDS)
def test_broken_input_is_named(kind, tmp_path, capsys):
    config, name, content, expected = KINDS[kind]
    write(tmp_path / "t.yaml", config)
    write(tmp_path / name, content)
    assert main(["validate", str(tmp_path / "t.yaml")]) == 1
    output = capsys.readouterr().out
    for text in expected:
        assert text in output, output
    assert "sound" not in output


def test_every_problem_is_reported_not_just_the_first(tmp_path, capsys):
    rows = [example_row(doc_id=str(i), turncated_prefixes=f"Part {i}. ") for i in range(6)]
    rows[1]["completion"] = ""
    rows[3]["contradiction_0"] = None
    rows[5]["contradiction_1"] = " "
    write(tmp_path / "rows.jsonl", jsonl(*rows))
    write(tmp_path / "t.yaml", ON_ROWS)
    assert main(["validate", str(tmp_path / "t.yaml")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.rsplit("rows.jsonl:", 1)[1].split(":")[0] for line in lines[:3]] == ["2", "4", "6"]
    assert lines[3].endswith("3 problems; 6 rows, 24 requests")


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet"])
def test_sound_input_passes_and_shows_the_requests(name, tmp_path, capsys):
    rows = [example_row(), OTHER]
    if name.endswith("parquet"):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / name)
    elif name.endswith("jsonl"):
        write(tmp_path / name, jsonl(*rows))
    else:
        header = ",".join(rows[0])
        write(
            tmp_path / name,
            "\n".join([header, *(",".join(f'"{cell}"' for cell in row.values()) for row in rows)]),
        )
    write(tmp_path / "t.yaml", BASE + f"dataset_path: {name}\n")
    for target in (tmp_path / "t.yaml", tmp_path / name):
        assert main(["validate", str(target)]) == 0
        output = capsys.readouterr().out
        assert "sound; 2 rows, 8 requests" in output
        assert "context of the first row: 'The library opened in 1870.'" in output
        assert "continuation 0: ' Its first keeper was a sailor from the north.'" in output


def test_a_task_by_name_and_an_unknown_one(capsys):
    assert main(["validate", "sample_facto", "sample_factor"]) == 1
    output = capsys.readouterr().out
    assert "did you mean sample_factor" in output
    assert "sample_factor: sound" in output


def test_a_group_stands_for_its_tasks(tmp_path, capsys):
    write(tmp_path / "rows.jsonl", SOUND)
    for name in ("one", "two"):
        write(tmp_path / f"{name}.yaml", ON_ROWS.replace("task: t", f"task: {name}"))
    write(tmp_path / "group.yaml", "group: pair\ntask: [one, two]\n")
    assert main(["validate", str(tmp_path / "group.yaml")]) == 0
    output = capsys.readouterr().out
    assert "one: sound" in output
    assert "two: sound" in output


def test_a_group_that_holds_itself_is_no_endless_loop(tmp_path, capsys):
    write(tmp_path / "group.yaml", "group: pair\ntask: [pair]\n")
    assert main(["validate", str(tmp_path / "group.yaml")]) == 1
    assert "holds itself" in capsys.readouterr().out


def test_white_space_around_a_template_is_part_of_the_text(tmp_path, capsys):
    row = {
        "context": "A storm came.",
        "right": "It broke the pier.",
        "wrong": "It spared the pier.",
    }
    write(tmp_path / "rows.jsonl", jsonl(row))
    for text, context, continuation in (
        ("{{context}} ", "A storm came.", " It broke"),
        ("{{context}}\n", "A storm came.\n", "It broke"),
    ):
        write(
            tmp_path / "t.yaml",
            ON_ROWS + f"doc_to_text: {json.dumps(text)}\ndoc_to_choice: [right, wrong]\n",
        )
        assert main(["validate", str(tmp_path / "t.yaml")]) == 0
        output = capsys.readouterr().out
        assert f"context of the first row: {context!r}" in output
        assert f"continuation 0: '{continuation}" in output


def test_a_yaml_may_name_its_columns_or_use_templates(tmp_path, capsys):
    row = {
        "context": "A storm came. ",
        "right": "It broke the old pier.",
        "wrong": "It spared the old pier.",
        "answer": 1,
    }
    write(tmp_path / "rows.jsonl", jsonl(row))
    columns = "metadata: {columns: {prefix: context, completion: right, contradictions: [wrong]}}\n"
    templates = (
        "doc_to_text: '{{context}}'\ndoc_to_choice: '{{[wrong, right]}}'\ndoc_to_target: answer\n"
    )
    listed = "doc_to_text: context\ndoc_to_choice: [right, '{{wrong}}']\n"
    for extra in (columns, templates, listed):
        write(tmp_path / "t.yaml", ON_ROWS + extra)
        assert main(["validate", str(tmp_path / "t.yaml")]) == 0, capsys.readouterr().out
        assert "' It broke the old pier.'" in capsys.readouterr().out


TEXTS = f"include: {TASKS / 'factor' / '_perplexity.yaml'}\ntask: t\n"

# the same for perplexity tasks; the file is texts.jsonl
TEXT_KINDS = {
    "unknown key": (
        TEXTS + "dataset_pat: texts.jsonl\n",
        "",
        ["unknown key 'dataset_pat'; did you mean dataset_path?"],
    ),
    "FACTOR's keys": (
        TEXTS + "dataset_path: texts.jsonl\ndoc_to_choice: text\ndoc_to_text: text\n",
        "",
        ["unknown key 'doc_to_choice'", "doc_to_text is 'text'; expected '': nothing stands"],
    ),
    "missing column": (
        TEXTS + "dataset_path: texts.jsonl\n",
        '{"body": "a"}\n',
        ["no column 'text'; the table has the columns 'body'"],
    ),
    "empty text": (
        TEXTS + "dataset_path: texts.jsonl\n",
        '{"text": "a"}\n{"text": ""}\n',
        ["texts.jsonl:2: the document is empty", "1 problem; 2 rows"],
    ),
    "not JSON": (
        TEXTS + "dataset_path: texts.jsonl\n",
        '{"text": "a"}\nb\n',
        ["texts.jsonl:2: not valid JSON"],
    ),
    "unknown benchmark": (
        TEXTS + "metadata: {documents_of: wiki_facto}\n",
        "",
        ["did you mean wiki_factor?"],
    ),
    "benchmark that is not there": (
        TEXTS + "metadata: {documents_of: rows.csv}\n",
        "",
        ["rows.csv: no such file"],
    ),
    "wrong stride": (
        TEXTS + "metadata: {documents_of: texts.jsonl, stride: 2000}\n",
        "",
        ["stride: found 2000, expected less than"],
    ),
}


@pytest.mark.parametrize("kind", TEXT_KINDS)
def test_broken_input_of_perplexity_tasks_is_named(kind, tmp_path, capsys):
    config, content, expected = TEXT_KINDS[kind]
    write(tmp_path / "t.yaml", config)
    write(tmp_path / "texts.jsonl", content)
    assert main(["validate", str(tmp_path / "t.yaml")]) == 1
    output = capsys.readouterr().out
    for text in expected:
        assert text in output, output
    assert "sound" not in output


def test_sound_texts_pass_and_show_their_beginning(tmp_path, capsys):
    write(tmp_path / "texts.jsonl", jsonl({"text": "word " * 100, "doc_id": 1}))
    write(tmp_path / "t.yaml", TEXTS + "dataset_path: texts.jsonl\n")
    assert main(["validate", str(tmp_path / "t.yaml"), "sample_factor_perplexity"]) == 0
    output = capsys.readouterr().out
    assert "t.yaml: sound; 1 rows, 1 requests" in output
    assert "first row: '... " in output
    assert "sample_factor_perplexity: sound; 432 rows, 432 requests" in output
