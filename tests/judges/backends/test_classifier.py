"""A classifier as a judge: replies by kind, answers on disk, identity, and what it cannot do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from judges.config import load_judge_config
from judges.inference import EntailmentPair as Asked
from judges.inference.models import SupportModel, load_model
from judges.judge import Judge
from judges.lexical.words import ParsedPassage
from judges.verify import Pair, verify
from lm_factuality.cli.main import main
from lm_factuality.ground.errors import BackendDownError, ConfigError, ModelError
from lm_factuality.harness.samples import verdict_of
from tests.judges.inference.test_support import CLAIMS, TEXT

PAIRS = [Pair(claim, (f"Title: Ada Lind\n{TEXT}",)) for claim in CLAIMS]


def expected(folder: Path) -> list[float]:
    asked = [Asked(claim, (ParsedPassage(TEXT, "Ada Lind"),)) for claim in CLAIMS]
    return [each.probability for each in load_model(str(folder), device="cpu").support(asked)]


@pytest.mark.parametrize("kind", ["roberta", "deberta", "nli", "single"])
def test_verify_gives_the_models_probability_and_the_verdict_of_the_threshold(
    write_judge, folders, tmp_path, kind
):
    chances = expected(folders[kind])
    threshold = min(0.9, max(0.1, sorted(chances)[2] - 1e-6))
    config = load_judge_config(write_judge(model=str(folders[kind]), threshold=threshold))
    with Judge.open(config, tmp_path / "a.sqlite") as judge:
        found = verify(judge, PAIRS)
    assert [each.verdict == "supported" for each in found] == [
        chance >= threshold for chance in chances
    ]
    for each, chance in zip(found, chances, strict=True):
        assert each.score == pytest.approx(chance, abs=1e-4) or "contradicts" in each.reason
        assert f"probability of support {chance:.3f}" in each.reason


def test_answers_are_on_disk_and_are_not_computed_again(write_judge, tmp_path, monkeypatch):
    config = load_judge_config(write_judge(batch_size=2))
    with Judge.open(config, tmp_path / "a.sqlite") as judge:
        first = verify(judge, PAIRS)
        assert judge.usage.calls == len(PAIRS)
    monkeypatch.setattr(SupportModel, "support", lambda *_: pytest.fail("asked again"))
    with Judge.open(config, tmp_path / "a.sqlite") as judge:
        assert verify(judge, PAIRS) == first
        assert (judge.usage.calls, judge.usage.stored) == (0, len(PAIRS))


@pytest.mark.parametrize("kind", ["segments", "claims"])
def test_units_below_the_threshold_are_flagged(write_judge, folders, tmp_path, kind):
    chances = expected(folders["roberta"])
    threshold = (sorted(chances)[1] + sorted(chances)[2]) / 2
    subject = {
        "kind": kind,
        "units": list(CLAIMS),
        "passages": [f"Title: Ada Lind\n{TEXT}"],
        "claim": "",
        "question": "Who?",
    }
    subject |= {"links": [], "demonstration": {}}
    (tmp_path / "own.jinja").write_text("{{ units }}", encoding="utf-8")
    config = load_judge_config(write_judge(threshold=threshold, prompts={"verify": "own.jinja"}))
    with Judge.open(config, tmp_path / "a.sqlite") as judge:
        ((answer,),) = judge.ask("verify", [subject], "asking")
    assert answer.text.endswith(
        "Answer: " + ",".join(str(n) for n, chance in enumerate(chances, 1) if chance < threshold)
    )


def test_what_it_cannot_judge_is_unscored_with_the_reason(write_judge, tmp_path):
    (tmp_path / "own.jinja").write_text("x", encoding="utf-8")
    with Judge.open(
        load_judge_config(write_judge(prompts={"verify": "own.jinja"})), tmp_path / "a.sqlite"
    ) as judge:
        subjects = [{"kind": "decompose"}, {"kind": "verify", "claim": "x", "passages": [" "]}]
        subjects.append({"kind": "verify", "claim": "Ada " * 200, "passages": [TEXT]})
        errors = [answer.error for (answer,) in judge.ask("verify", subjects, "asking")]
    assert errors == [
        "a classifier cannot judge 'decompose', only verify, segments, claims, marks",
        "no evidence: this judge needs passages",
        "no verdict: the claim leaves no room for passages in 129 tokens",
    ]


def test_the_identity_is_of_the_weights_and_of_all_that_can_change_a_probability(
    write_judge, folders, tmp_path
):
    def identity(**keys) -> str:
        with Judge.open(load_judge_config(write_judge(**keys)), tmp_path / "a.sqlite") as judge:
            return judge.identity

    moved = tmp_path / "elsewhere" / folders["roberta"].name
    shutil.copytree(folders["roberta"], moved)
    plain = identity()
    assert plain == identity(model=str(moved), device="cpu", batch_size=3)
    assert "MiniCheck-RoBERTa-Large@" in plain
    others = [
        identity(**keys) for keys in ({"window": 50}, {"threshold": 0.4}, {"family": "alignscore"})
    ]
    (moved / "model.safetensors").write_bytes(
        (folders["single"] / "model.safetensors").read_bytes()
    )
    others.append(identity(model=str(moved)))
    assert len({plain, *others}) == 5
    config = load_judge_config(write_judge(window=50))
    assert {key: config.describe()[key] for key in ("window", "threshold", "family")} == {
        "window": 50,
        "threshold": 0.5,
        "family": None,
    }


def test_wrong_settings_are_told_before_anything_is_asked(write_judge, tmp_path):
    for keys, message in (
        ({"threshold": 0.99}, "threshold is 0.99; expected less than or equal to 0.9"),
        ({"window": 4}, "window is 4; expected greater than or equal to 16"),
        ({"temperature": 1}, "unknown key 'temperature'"),
        ({"model": ""}, "model is missing: a model on the Hub, or its folder"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_judge_config(write_judge(**keys))
    with pytest.raises(
        ConfigError, match="no family of models is called 'minichek'; did you mean minicheck"
    ):
        Judge.open(load_judge_config(write_judge(family="minichek")), tmp_path / "a.sqlite")
    with pytest.raises(ModelError, match="the judge's model 'no/such' cannot be loaded"):
        Judge.open(load_judge_config(write_judge(model="no/such")), tmp_path / "a.sqlite")


def test_a_model_that_fails_is_a_judge_that_is_down(write_judge, folders, tmp_path):
    config = load_judge_config(write_judge(model=str(folders["roberta"]), family="nli"))
    with (
        Judge.open(config, tmp_path / "a.sqlite") as judge,
        pytest.raises(BackendDownError, match="judge minicheck: .*its labels are"),
    ):
        verify(judge, PAIRS)


def test_certify_measures_it_and_how_well_it_is_calibrated(write_judge, tmp_path, capsys):
    out = tmp_path / "certificate.json"
    assert main(["certify", "--judge", str(write_judge()), "--sample", "--out", str(out)]) == 0
    certificate = json.loads(out.read_text(encoding="utf-8"))
    assert certificate["setting"] == "segment_doc"
    assert certificate["scores"]["unscored"]["responses"] == 0
    bins = certificate["calibration"]
    assert [each["low"] for each in bins] == [number / 10 for number in range(10)]
    assert sum(each["units"] for each in bins) > 100
    # At a threshold of 0.5 a verdict in the lower half is wrong where the label is "supported", in
    # the upper where it is not.
    assert all(
        each["wrong"]
        == (each["supported"] if each["low"] < 0.5 else each["units"] - each["supported"])
        for each in bins
    )
    flagged = sum(each["units"] for each in bins if each["low"] < 0.5)
    found = certificate["scores"]["ALL"]["segment"]
    assert found["tp"] + found["fp"] == flagged
    assert "segments with references and a probability of" in " ".join(
        capsys.readouterr().out.split()
    )


def test_open_generation_is_marked_by_whole_sentences(evaluate, checkpoint, write_judge):
    """Words alone do not limit a model: it is asked about every pair of wordings, and no task says
    that it went by words."""
    output = evaluate(
        "hf",
        ["sample_factor_generation"],
        model_args={"pretrained": str(checkpoint), "dtype": "float32"},
        metadata={"judge": str(write_judge())},
        limit=3,
    )
    caution = output["configs"]["sample_factor_generation"]["metadata"]["caution"]
    assert "reads no prompt" in caution
    assert "Judged by word overlap" not in caution
    for sample in output["samples"]["sample_factor_generation"]:
        verdict = verdict_of(sample)
        assert not any("content word" in (reason or "") for reason in verdict["reasons"])
