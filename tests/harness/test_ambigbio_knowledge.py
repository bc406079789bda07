"""Results of a run name the knowledge source by its identity too."""

from __future__ import annotations

import json

import pytest

from lm_factuality.retrieval.build import build_knowledge

DOC = {"title": "Ada Lind", "text": "Ada Lind was a painter."}


@pytest.mark.parametrize("has_knowledge", [True, False])
def test_metadata_name_the_knowledge_source(evaluate, tmp_path, monkeypatch, has_knowledge):
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    (tmp_path / "rows.json").write_text(
        json.dumps({"data": [{"question": "Tell me a bio of Ada Lind", "docs": [DOC]}]})
    )
    (tmp_path / "pages.jsonl").write_text(json.dumps(DOC))
    metadata, expected = (
        {"generations": str(tmp_path / "rows.json"), "judge": "lexical"},
        ("documents", None),
    )
    if has_knowledge:
        built = build_knowledge(tmp_path / "pages.jsonl", tmp_path / "pages.db")
        metadata["knowledge"], expected = str(built.path), ("pages.db", built.identity)
    output = evaluate(
        "constant-answer",
        ["ambigbio"],
        metadata=metadata,
        model_args={"answer": "She was a painter [1]."},
    )
    about = output["configs"]["ambigbio"]["metadata"]
    assert (about["knowledge"], about["knowledge_identity"]) == expected
