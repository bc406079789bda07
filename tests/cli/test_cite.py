"""``lm-factuality cite`` as a user types it."""

from __future__ import annotations

import json

import pytest

from lm_factuality.cli import main

TEXT = "Ada Lind was a painter from Orrmark. She was born in 1871 and died in 1923."
ROWS = [
    {
        "question": "Tell me a bio of Ada Lind",
        "docs": [{"title": "Ada Lind (painter)", "text": TEXT}],
        "output": output,
    }
    for output in (
        "Ada Lind was a painter from Orrmark [1]. She was born in 1871 [1].",
        "Ada Lind rowed at the games in 1908 [1].",
        "No.",
    )
]


@pytest.fixture
def generations(tmp_path):
    path = tmp_path / "generations.json"
    path.write_text(json.dumps({"data": ROWS}), encoding="utf-8")
    return path


def test_both_files_and_the_table(generations, tmp_path, capsys):
    out = tmp_path / "cited"
    assert (
        main(["cite", "--generations", str(generations), "--nli", "lexical", "--out", str(out)])
        == 0
    )
    metrics = json.loads((out / "metrics.json").read_text())
    assert (metrics["citation_recall"], metrics["citation_precision"]) == (
        pytest.approx(1 / 3),
        0.5,
    )
    assert metrics["about"]["nli"].startswith("lexical ")
    records = [json.loads(line) for line in (out / "citations.jsonl").read_text().splitlines()]
    assert [record["citation_recall"] for record in records] == [1.0, 0.0, 0.0]
    assert [each["supported"] for each in records[0]["sentences"]] == [True, True]
    output = capsys.readouterr().out
    assert "citation recall" in output
    assert "3 responses (1 without a citation, 0 without a sentence), 4 sentences" in output
    assert (
        main(
            [
                "cite",
                "--generations",
                str(generations),
                "--nli",
                "lexical",
                "--protocol",
                "code",
                "--out",
                str(out),
            ]
        )
        == 0
    )
    assert json.loads((out / "metrics.json").read_text())["citation_precision"] == pytest.approx(
        1 / 3
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"--nli": "gone/model"}, "the inference model 'gone/model' cannot be loaded"),
        ({"--generations": "gone.json"}, "gone.json: no such file"),
    ],
)
def test_wrong_arguments(generations, tmp_path, capsys, changes, expected):
    options = {
        "--generations": str(generations),
        "--nli": "lexical",
        "--out": str(tmp_path / "out"),
        **changes,
    }
    assert main(["cite", *(part for pair in options.items() for part in pair)]) == 1
    assert expected in capsys.readouterr().err
