"""``lm-factuality judge ambigbio``: what its results say of how they were made."""

from __future__ import annotations

import json

import pytest

from lm_factuality.benchmarks.biographies.types import read_verdicts
from lm_factuality.cli import main
from lm_factuality.retrieval.build import build_knowledge
from lm_factuality.retrieval.knowledge import Knowledge

TEXT = "Ada Lind was a painter. She taught at the Harbour School."
ROW = {
    "question": "Tell me a bio of Ada Lind",
    "docs": [{"title": "Ada Lind", "text": TEXT}],
    "output": f"{TEXT} [1]",
}


@pytest.fixture
def judged(tmp_path, monkeypatch):
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    rows, out = tmp_path / "rows.json", tmp_path / "judged"
    rows.write_text(json.dumps({"data": [ROW]}), encoding="utf-8")

    def run(*options):
        given = ["--generations", str(rows), "--judge", "lexical", "--out", str(out), *options]
        assert main(["judge", "ambigbio", *given]) == 0
        return json.loads((out / "metrics.json").read_text(encoding="utf-8")), read_verdicts(
            out / "verdicts.jsonl"
        )

    return run


def test_knowledge_is_named_with_its_identity(judged, tmp_path):
    source = tmp_path / "pages.jsonl"
    identities = []
    for text in (TEXT, f"{TEXT} She rowed."):  # two sources under one name
        source.write_text(json.dumps({"title": "Ada Lind", "text": text}) + "\n", encoding="utf-8")
        path = tmp_path / "pages.db"
        build_knowledge(source, path, overwrite=True)
        about = judged("--metadata", f"knowledge={path}")[0]["about"]
        assert (about["knowledge"], about["knowledge_identity"]) == (
            "pages.db",
            Knowledge(path).identity,
        )
        identities.append(about["knowledge_identity"])
    assert len(set(identities)) == 2
    about = judged()[0]["about"]
    assert (about["knowledge"], about["knowledge_identity"]) == ("documents", None)


def test_verdicts_name_protocol_and_linking(judged):
    (line,) = judged("--metadata", "protocol=code,linking=hungarian")[1]
    assert (line["protocol"], line["linking"]) == ("code", "hungarian")
    (line,) = judged()[1]
    assert (line["protocol"], line["linking"]) == ("paper", "greedy")
