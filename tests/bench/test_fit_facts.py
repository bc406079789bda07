from __future__ import annotations

import json

import pytest

from bench.lexical.fit_facts import fit_files, main, match_texts
from judges.lexical.model import COEFFICIENTS, load_lexical_model
from lm_factuality.benchmarks.biographies.decisions import DecidedFact, DecidedResponse
from lm_factuality.benchmarks.biographies.types import GeneratedText

FACT_COEFFICIENTS = COEFFICIENTS.with_name("fact_coefficients.json")


def generation(output):
    return GeneratedText("0", "Tell me a bio of Ada Lind", "Ada Lind", output, ())


def test_facts_find_the_text_that_they_are_from():
    texts = ["Ada Lind was a baker in Oslo.", "Bo Ek sailed to Lima in 1872."]
    facts = (
        DecidedFact("Bo Ek sailed to Lima.", True, None),
        DecidedFact("Bo Ek sailed in 1872.", True, None),
    )
    other = (DecidedFact("Cy Dahl painted a barn.", True, None),)
    responses = [None, DecidedResponse(facts, ()), DecidedResponse(other, ())]
    found = list(match_texts(responses, [generation(text) for text in texts]))
    assert [(response.facts, each.output) for response, each in found] == [(facts, texts[1])]


def test_too_little_to_fit_on_is_named(tmp_path, capsys):
    decisions, generations = tmp_path / "decisions.json", tmp_path / "generations.json"
    fact = {"atom": "Ada Lind was a baker.", "is_supported": True, "supporting_topic": "Ada Lind"}
    decisions.write_text(
        json.dumps({"decisions": [[fact]], "global_decisions": [[fact]]}), encoding="utf-8"
    )
    row = {
        "question": "Tell me a bio of Ada Lind",
        "docs": [{"title": "Ada Lind", "text": "A baker."}],
        "output": "Ada Lind was a baker.",
    }
    generations.write_text(json.dumps({"data": [row]}), encoding="utf-8")
    arguments = [
        "--decisions",
        str(decisions),
        "--generations",
        str(generations),
        "--out",
        str(tmp_path / "out.json"),
    ]
    assert main(arguments) == 1
    assert "needs those of at least 5 names" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


@pytest.mark.slow
def test_the_committed_coefficients_are_what_the_released_decisions_give(shared):
    folder = shared / "data" / "ambigbio"
    known = json.loads(FACT_COEFFICIENTS.read_text(encoding="utf-8"))
    found = fit_files(
        folder / "decisions" / "chatgpt-0301__no-ambig.json.gz",
        folder / "generations_chatgpt-0301.json.gz",
    )
    assert found["coefficients"] == pytest.approx(known["coefficients"], abs=1e-3)
    assert found["threshold"] == pytest.approx(known["threshold"], abs=1e-2)
    assert found["fitted_on"]["auc_out_of_fold"] > 0.93
    assert found["fitted_on"]["pairs"] > 19_000


def test_the_lexical_judge_reads_them():
    assert 0.3 < load_lexical_model(FACT_COEFFICIENTS).threshold < 0.6
