"""What ``validate`` says of broken and of sound YAMLs and data.

An error names the place, what was found there and what was expected.
"""

from __future__ import annotations

import csv
import json

import pyarrow
import pyarrow.parquet
import pytest

from lm_factuality.cli import main
from tests.conftest import TASKS, example_row

FACTOR_YAML = f"include: {TASKS / 'factor' / '_factor.yaml'}\ntask: t\n"
"""The YAML of a FACTOR task that does not name its data yet."""

YAML_OF_JSONL = FACTOR_YAML + "dataset_path: rows.jsonl\n"
YAML_OF_CSV = FACTOR_YAML + "dataset_path: rows.csv\n"
CHAT_YAML = f"""\
include: {TASKS / "factor" / "_factor_chat.yaml"}
task: t
dataset_path: rows.jsonl
metadata: {{protocol: letters}}
"""

ROW = example_row()
OTHER_ROW = example_row(doc_id="d2", turncated_prefixes="The mill burned down. ")


def to_jsonl(*rows):
    """Return rows as lines of JSON."""
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def validate(tmp_path, capsys):
    """Return a function that validates ``t.yaml``, and returns what the command prints.

    Its argument is the exit status that the command must have: 0 if all is sound, and 1 if not.
    """

    def run_validate(status):
        assert main(["validate", str(tmp_path / "t.yaml")]) == status
        return capsys.readouterr().out

    return run_validate


@pytest.mark.parametrize(
    ("yaml", "messages"),
    [
        pytest.param(
            "task: [", ["t.yaml: cannot be loaded as a task's YAML: ParserError"], id="no YAML"
        ),
        pytest.param(
            "include: gone.yaml\ntask: t\n",
            ["t.yaml: ", "No such file or directory", "gone.yaml"],
            id="include of a missing file",
        ),
        pytest.param(
            "task: t\ndataset_path: rows.jsonl\n",
            ["not a FACTOR task"],
            id="include left out",
        ),
        pytest.param(
            YAML_OF_JSONL + "doc_to_chioce: x\n",
            ["unknown key 'doc_to_chioce'; did you mean doc_to_choice?"],
            id="unknown key",
        ),
        pytest.param(
            YAML_OF_JSONL + "metric_list: [{metric: factor_accuracy}]\n",
            ["metric_list: no score 'factor_accuracy'; did you mean factor_acc?"],
            id="unknown metric",
        ),
        pytest.param(FACTOR_YAML, ["no data: give dataset_path"], id="no data"),
        pytest.param(
            FACTOR_YAML + "dataset_path: gone.csv\n",
            ["gone.csv: no such file"],
            id="missing data file",
        ),
        pytest.param(
            FACTOR_YAML + "dataset_path: http://127.0.0.1/rows.csv\n",
            ["found the address 'http://127.0.0.1/rows.csv', which is not read"],
            id="address of data",
        ),
        pytest.param(
            YAML_OF_JSONL + "output_type: generate_until\n",
            ["output_type is 'generate_until'; expected 'multiple_choice'"],
            id="other output type",
        ),
        pytest.param(
            YAML_OF_JSONL + "num_fewshot: 5\n",
            ["num_fewshot is 5; expected 0"],
            id="demonstrations",
        ),
        pytest.param(
            YAML_OF_JSONL + "dataset_kwargs: {sep: ';'}\n",
            ["dataset_kwargs: found sep, expected none for a file on this machine"],
            id="options of load_dataset for a file",
        ),
        pytest.param(
            YAML_OF_JSONL + "metadata: 3\n",
            ["t.yaml: metadata: found a int"],
            id="metadata that is a number",
        ),
        pytest.param(
            YAML_OF_JSONL + "metadata: {spacing: tidy}\n",
            ["metadata.spacing is 'tidy'; expected 'published' or 'normalised'"],
            id="unknown spacing",
        ),
        pytest.param(
            YAML_OF_JSONL + "metadata: {window: many}\n",
            ["metadata.window is 'many'; expected a number of"],
            id="window that is no number",
        ),
        pytest.param(
            YAML_OF_JSONL + "metadata: {columns: {prefx: a}}\n",
            ["unknown key 'prefx' of metadata.columns"],
            id="unknown role of a column",
        ),
        pytest.param(
            YAML_OF_JSONL + "metadata: {columns: {completion: truth}}\n",
            ["no column 'truth'", "'completion'"],
            id="missing column that the YAML names",
        ),
    ],
)
def test_a_broken_yaml_is_refused_with_the_key(write_rows, tmp_path, validate, yaml, messages):
    """lm_eval ignores a misspelt key and evaluates something else."""
    write_rows([ROW])
    (tmp_path / "t.yaml").write_text(yaml, encoding="utf-8")

    output = validate(status=1)

    for message in messages:
        assert message in output
    assert "sound" not in output


def test_a_yaml_that_is_not_utf_8_is_refused(tmp_path, validate):
    """The file has "café" in Latin-1."""
    (tmp_path / "t.yaml").write_bytes(b"task: caf\xe9\n")

    output = validate(status=1)

    assert "t.yaml: " in output
    assert "unacceptable character" in output


@pytest.mark.parametrize(
    ("templates", "message"),
    [
        pytest.param(
            "doc_to_text: prefx\ndoc_to_choice: '{{[completion, contradiction_0]}}'\n",
            "doc_to_text: no column 'prefx'",
            id="unknown column",
        ),
        pytest.param(
            "doc_to_text: completion\ndoc_to_choice: '{{[complition, contradiction_0]}}'\n",
            "doc_to_choice uses 'complition', which is not a column",
            id="unknown column in braces",
        ),
        pytest.param(
            "doc_to_text: completion\ndoc_to_choice: completion\n",
            "expected a list of texts",
            id="choices that are no list",
        ),
        pytest.param(
            "doc_to_target: label\n",
            "give doc_to_text and doc_to_choice with doc_to_target",
            id="target without choices",
        ),
        pytest.param(
            "doc_to_text: turncated_prefixes\n"
            "doc_to_choice: '{{[completion, contradiction_0]}}'\n"
            "doc_to_target: 2\n",
            "rows.jsonl:1: the gold is no choice (found 2), expected an index from 0 to 1",
            id="target out of range",
        ),
        pytest.param(
            "doc_to_text: turncated_prefixes\n"
            "doc_to_choice: '{{[completion, contradiction_0]}}'\n"
            "doc_to_target: doc_id\n",
            "rows.jsonl:1: the gold is no choice",
            id="target that is no choice",
        ),
        pytest.param(
            "doc_to_text: turncated_prefixes\n"
            "doc_to_choice: [completion, contradiction_0]\n"
            "metadata: {columns: {error_types: [a]}}\n",
            "metadata.columns.error_types and doc_to_text say the same thing twice",
            id="templates and columns",
        ),
    ],
)
def test_a_broken_template_is_refused(write_rows, tmp_path, validate, templates, message):
    """lm_eval uses a word that is no column as the prompt itself."""
    write_rows([ROW])
    (tmp_path / "t.yaml").write_text(YAML_OF_JSONL + templates, encoding="utf-8")

    output = validate(status=1)

    assert message in output
    assert "sound" not in output


def without(row, column):
    """Return a row without one of its columns."""
    return {name: value for name, value in row.items() if name != column}


def renamed(row, column, name):
    """Return a row with another name of one of its columns."""
    return {**without(row, column), name: row[column]}


@pytest.mark.parametrize(
    ("yaml", "rows", "message"),
    [
        pytest.param(
            YAML_OF_JSONL,
            [{"prefix": "a", "completion": "b"}],
            "no column 'contradiction_0'",
            id="no contradiction",
        ),
        pytest.param(
            YAML_OF_JSONL,
            [without(ROW, "contradiction_1")],
            "rows.jsonl: no column 'contradiction_1'; found ",
            id="gap among the contradictions",
        ),
        pytest.param(
            YAML_OF_JSONL,
            [renamed(ROW, "contradiction_2", "contradicton_2")],
            "rows.jsonl: the column 'contradicton_2' would not be read; expected 'contradiction_2'",
            id="misspelt last contradiction",
        ),
        pytest.param(
            YAML_OF_JSONL,
            [renamed(ROW, "contradiction_2", "Contradiction 2")],
            "the column 'Contradiction 2' would not be read; expected 'contradiction_2'",
            id="last contradiction with a space",
        ),
        pytest.param(
            YAML_OF_JSONL,
            [renamed(ROW, "completion", "compleation")],
            "rows.jsonl: no column 'completion'; found 'doc_id', 'turncated_prefixes', 'contradiction_0',"
            " 'contradiction_1', 'contradiction_2', 'compleation'; rename yours",
            id="misspelt completion",
        ),
        pytest.param(
            YAML_OF_JSONL,
            [without(OTHER_ROW, "contradiction_2"), ROW],
            "rows.jsonl:1: choice 3 (contradiction_2) is missing",
            id="contradiction that one row lacks",
        ),
        pytest.param(
            YAML_OF_JSONL,
            [OTHER_ROW, example_row(contradiction_1=" ")],
            "rows.jsonl:2: choice 2 (contradiction_1) is empty",
            id="empty contradiction",
        ),
        pytest.param(
            YAML_OF_JSONL,
            [
                example_row(
                    completion="It fell.",
                    contradiction_0="It fell.",
                    contradiction_1="It fell.",
                    contradiction_2="It fell.",
                )
            ],
            "rows.jsonl:1: 1 distinct choice, expected at least 2",
            id="equal choices",
        ),
        pytest.param(
            YAML_OF_JSONL + "metadata: {spacing: normalised}\n",
            [example_row(completion="It fell.", contradiction_0="It fell .")],
            "rows.jsonl:1: a contradiction equals the true completion",
            id="choices that are equal in normalised spacing",
        ),
        pytest.param(
            YAML_OF_JSONL,
            [ROW, example_row(completion="It was \ud83d there.")],
            "rows.jsonl:2: holds half of a surrogate pair",
            id="half of a surrogate pair",
        ),
        pytest.param(
            CHAT_YAML,
            [example_row(**{f"contradiction_{number}": f"No. {number}." for number in range(26)})],
            "rows.jsonl:1: 27 choices, expected at most 26",
            id="more choices than letters",
        ),
    ],
)
def test_a_broken_row_is_refused_with_its_line(write_rows, tmp_path, validate, yaml, rows, message):
    """Otherwise such a row would be scored like any other."""
    write_rows(rows)
    (tmp_path / "t.yaml").write_text(yaml, encoding="utf-8")

    output = validate(status=1)

    assert message in output
    assert "sound" not in output


@pytest.mark.parametrize(
    ("content", "messages"),
    [
        pytest.param(
            b"prefix,completion,contradiction_0\na,caf\xe9,c\nb,d,\xff\n",
            ["rows.csv:2: byte 0xe9 is not UTF-8"],
            id="bytes that are not UTF-8",
        ),
        pytest.param(
            b"prefix,completion,contradiction_0\na,b\nc,d,e\nf,g\n",
            ["rows.csv:2: 2 cells, expected 3", "rows.csv:4: 2 cells, expected 3"],
            id="missing cells",
        ),
        pytest.param(
            b'prefix,completion,contradiction_0\na,b,"c\n',
            ["not valid CSV"],
            id="quotation that does not end",
        ),
        pytest.param(b"", ["rows.csv: no rows"], id="empty file"),
        pytest.param(
            b"prefix,prefix,completion,contradiction_0\na,b,c,d\n",
            ["columns named more than once: prefix"],
            id="two columns of one name",
        ),
    ],
)
def test_a_broken_csv_file_is_refused(tmp_path, validate, content, messages):
    """If a cell is missing, a prefix could be read as a choice."""
    (tmp_path / "rows.csv").write_bytes(content)
    (tmp_path / "t.yaml").write_text(YAML_OF_CSV, encoding="utf-8")

    output = validate(status=1)

    for message in messages:
        assert message in output
    assert "sound" not in output


def test_every_broken_row_is_reported_not_just_the_first(write_rows, tmp_path, validate):
    """A user can then mend all rows at once.

    Of six rows, the second has an empty completion, and two have no usable contradiction. A row has
    four choices, so that all have 24 requests.
    """
    rows = [
        example_row(doc_id=str(number), turncated_prefixes=f"Part {number}. ")
        for number in range(6)
    ]
    rows[1]["completion"] = ""
    rows[3]["contradiction_0"] = None
    rows[5]["contradiction_1"] = " "
    write_rows(rows)
    (tmp_path / "t.yaml").write_text(YAML_OF_JSONL, encoding="utf-8")

    second_row, fourth_row, sixth_row, total, *_ = validate(status=1).splitlines()

    assert "rows.jsonl:2:" in second_row
    assert "rows.jsonl:4:" in fourth_row
    assert "rows.jsonl:6:" in sixth_row
    assert total.endswith("3 problems; 6 rows, 24 requests")


def write_csv(path, rows):
    """Write rows as a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def write_jsonl(path, rows):
    """Write rows as a JSONL file."""
    path.write_text(to_jsonl(*rows), encoding="utf-8")


def write_parquet(path, rows):
    """Write rows as a Parquet file."""
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


@pytest.mark.parametrize("target", ["YAML", "data"])
@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("rows.csv", write_csv),
        ("rows.jsonl", write_jsonl),
        ("rows.parquet", write_parquet),
    ],
)
def test_sound_input_passes_with_the_requests_of_its_first_row(
    tmp_path, capsys, name, write, target
):
    """The user sees what the model will read; two rows of four choices make eight requests."""
    data_path = tmp_path / name
    write(data_path, [ROW, OTHER_ROW])
    yaml_path = tmp_path / "t.yaml"
    yaml_path.write_text(f"{FACTOR_YAML}dataset_path: {name}\n", encoding="utf-8")

    status = main(["validate", str(yaml_path if target == "YAML" else data_path)])

    output = capsys.readouterr().out
    assert status == 0
    assert "sound; 2 rows, 8 requests" in output
    assert "context of the first row: 'The library opened in 1870.'" in output
    assert "continuation 0: ' Its first keeper was a sailor from the north.'" in output


def test_a_task_is_validated_by_its_name(capsys):
    """A user may name a task of the suite as well as a file."""
    status = main(["validate", "sample_factor"])

    assert status == 0
    assert "sample_factor: sound" in capsys.readouterr().out


def test_an_unknown_task_does_not_stop_the_validation_of_the_next(capsys):
    """A user mends all mistakes at once."""
    status = main(["validate", "sample_facto", "sample_factor"])

    output = capsys.readouterr().out
    assert status == 1
    assert "did you mean sample_factor" in output
    assert "sample_factor: sound" in output


def test_the_tasks_of_a_group_are_validated(write_rows, tmp_path, capsys):
    """Users write groups of their own, and each task may have a mistake."""
    write_rows([ROW])
    for name in ("one", "two"):
        yaml = YAML_OF_JSONL.replace("task: t", f"task: {name}")
        (tmp_path / f"{name}.yaml").write_text(yaml, encoding="utf-8")
    group_path = tmp_path / "group.yaml"
    group_path.write_text("group: pair\ntask: [one, two]\n", encoding="utf-8")

    status = main(["validate", str(group_path)])

    output = capsys.readouterr().out
    assert status == 0
    assert "one: sound" in output
    assert "two: sound" in output


def test_circular_group_is_refused(tmp_path, capsys):
    """Reading it would never end."""
    path = tmp_path / "group.yaml"
    path.write_text("group: pair\ntask: [pair]\n", encoding="utf-8")

    status = main(["validate", str(path)])

    assert status == 1
    assert "holds itself" in capsys.readouterr().out


STORM_ROW = {
    "context": "A storm came.",
    "right": "It broke the pier.",
    "wrong": "It spared the pier.",
    "answer": 1,
}


@pytest.mark.parametrize(
    ("template", "context", "continuation"),
    [
        pytest.param("{{context}} ", "A storm came.", " It broke the pier.", id="space"),
        pytest.param("{{context}}\n", "A storm came.\n", "It broke the pier.", id="end of line"),
    ],
)
def test_trailing_space_of_a_template_moves_to_the_continuation(
    write_rows, tmp_path, validate, template, context, continuation
):
    """Tokenizers expect the space at the start of the continuation."""
    write_rows([STORM_ROW])
    templates = f"doc_to_text: {json.dumps(template)}\ndoc_to_choice: [right, wrong]\n"
    (tmp_path / "t.yaml").write_text(YAML_OF_JSONL + templates, encoding="utf-8")

    output = validate(status=0)

    assert f"context of the first row: {context!r}" in output
    assert f"continuation 0: {continuation!r}" in output


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(
            "metadata: {columns: {prefix: context, completion: right, contradictions: [wrong]}}\n",
            id="columns",
        ),
        pytest.param(
            "doc_to_text: '{{context}}'\n"
            "doc_to_choice: '{{[wrong, right]}}'\n"
            "doc_to_target: answer\n",
            id="templates",
        ),
        pytest.param(
            "doc_to_text: context\ndoc_to_choice: [right, '{{wrong}}']\n", id="list of choices"
        ),
    ],
)
def test_a_yaml_may_name_its_columns_or_use_templates(write_rows, tmp_path, validate, keys):
    """Users of lm_eval know templates; columns need no knowledge of Jinja."""
    row = {
        "context": "A storm came.",
        "right": "It broke the pier.",
        "wrong": "It spared the pier.",
        "answer": 1,
    }
    write_rows([row])
    (tmp_path / "t.yaml").write_text(YAML_OF_JSONL + keys, encoding="utf-8")

    output = validate(status=0)

    assert "context of the first row: 'A storm came.'" in output
    assert ": ' It broke the pier.'" in output


PERPLEXITY_YAML = f"include: {TASKS / 'factor' / '_perplexity.yaml'}\ntask: t\n"
"""The YAML of a perplexity task that does not name its texts yet."""

PERPLEXITY_YAML_OF_JSONL = PERPLEXITY_YAML + "dataset_path: texts.jsonl\n"


@pytest.mark.parametrize(
    ("yaml", "texts", "messages"),
    [
        pytest.param(
            PERPLEXITY_YAML + "dataset_pat: texts.jsonl\n",
            "",
            ["unknown key 'dataset_pat'; did you mean dataset_path?"],
            id="unknown key",
        ),
        pytest.param(
            PERPLEXITY_YAML_OF_JSONL + "doc_to_choice: text\ndoc_to_text: text\n",
            "",
            ["unknown key 'doc_to_choice'", "doc_to_text is 'text'; expected '': nothing stands"],
            id="keys of FACTOR",
        ),
        pytest.param(
            PERPLEXITY_YAML_OF_JSONL,
            '{"body": "a"}\n',
            ["no column 'text'; the table has the columns 'body'"],
            id="no column of texts",
        ),
        pytest.param(
            PERPLEXITY_YAML_OF_JSONL,
            '{"text": "a"}\n{"text": ""}\n',
            ["texts.jsonl:2: the document is empty", "1 problem; 2 rows"],
            id="empty text",
        ),
        pytest.param(
            PERPLEXITY_YAML_OF_JSONL,
            '{"text": "a"}\nb\n',
            ["texts.jsonl:2: not valid JSON"],
            id="line that is no JSON",
        ),
        pytest.param(
            PERPLEXITY_YAML + "metadata: {documents_of: wiki_facto}\n",
            "",
            ["did you mean wiki_factor?"],
            id="unknown published file",
        ),
        pytest.param(
            PERPLEXITY_YAML + "metadata: {documents_of: rows.csv}\n",
            "",
            ["rows.csv: no such file"],
            id="missing FACTOR file",
        ),
        pytest.param(
            PERPLEXITY_YAML + "metadata: {documents_of: texts.jsonl, stride: 2000}\n",
            "",
            ["stride: found 2000, expected less than"],
            id="stride longer than the window",
        ),
    ],
)
def test_broken_input_of_a_perplexity_task_is_refused(tmp_path, validate, yaml, texts, messages):
    """A perplexity of wrong texts looks like any other number."""
    (tmp_path / "t.yaml").write_text(yaml, encoding="utf-8")
    (tmp_path / "texts.jsonl").write_text(texts, encoding="utf-8")

    output = validate(status=1)

    for message in messages:
        assert message in output
    assert "sound" not in output  # the word for input without problems


def test_valid_perplexity_task_passes_and_shows_its_first_text(tmp_path, validate):
    """The text is long, so its last words are shown behind "..."."""
    (tmp_path / "t.yaml").write_text(PERPLEXITY_YAML_OF_JSONL, encoding="utf-8")
    texts = to_jsonl({"text": "word " * 100, "doc_id": 1})
    (tmp_path / "texts.jsonl").write_text(texts, encoding="utf-8")

    output = validate(status=0)

    assert "t.yaml: sound; 1 rows, 1 requests" in output
    assert "first row: '... " in output


def test_a_perplexity_task_of_the_sample_is_sound(capsys):
    """Each of the 432 texts is one request, whereas a row of FACTOR has one for each choice."""
    status = main(["validate", "sample_factor_perplexity"])

    output = capsys.readouterr().out
    assert status == 0
    assert "sample_factor_perplexity: sound; 432 rows, 432 requests" in output
