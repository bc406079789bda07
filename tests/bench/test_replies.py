"""Whatever a judge says can be stored and read back: it is scored, or unscored with a reason, and
never a crash."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.attack.commands import SAMPLE
from bench.attack.world import STORE
from factor_gen.cli import main as factor_gen
from judges.store import AnswerStore
from lm_factuality.cli import main as lm_factuality
from tests.benchmarks.factor_generation.documents import make_document
from tests.factor_gen.corpora import write_corpus
from tests.judges.server import Act, JudgeServer

DIGITS = "1" * 5000
MEGABYTE = 2**20
HOSTILE = [
    "\0",
    "\ud800 half of a pair",
    f"Segment {DIGITS}: a claim",
    f"Answer: {DIGITS}",
    DIGITS,
    f'{{"segments": [{{"segment": {DIGITS}, "claims": ["x"]}}]}}',
    f'{{"verdicts": [{{"number": {DIGITS}, "reason": "", "verdict": "supported"}}]}}',
    '{"reason": "\\ud800", "verdict": "supported"}',
    '{"reason": "\\u0000", "verdict": "not_supported", "probability": NaN}',
    '{"reason": "", "verdict": "supported", "probability": 1e999}',
    '{"wrong": [{"number": -1, "reason": "", "type": null}], "wrong": []}',
    '{"groups": [[1, 1], [99999999999999999999]], "facts": ["\\ud83d"]}',
    '{"contradictions": [{"edits": [{"old": "", "new": "\\ud800"}], "contradiction": "\\ud800"}]}',
    "[" * 100_000,
    '{"a":' * 5000 + "1" + "}" * 5000,
    "{" * 500 + "}" * 500,
    "<think>" * 1000,
    "</think>" * 1000 + "Answer: 1",
    "\x1b[2J\u202e\u2028\ufeff",
    "Answer: " + "1, " * (MEGABYTE // 3),
    "so " * (MEGABYTE // 3),
    "```" * 1000,
]
COMMANDS = {
    "judge felm_gen": "judge felm_gen --samples felm_gen.jsonl",
    "judge ambigbio": "judge ambigbio --generations biographies.json",
    "judge ambigbio by page": "judge ambigbio --generations biographies.json --judge page.yaml",
    "judge longform": "judge longform --samples longform.jsonl",
    "judge factor_generation": "judge factor_generation --samples factor.jsonl",
    "verify": "verify --pairs pairs.jsonl",
    "claims extract": "claims extract --data-dir felm",
    "certify segments": "certify --data-dir felm --setting segment_cot",
    "certify claims": "certify --data-dir felm --setting claim_cot",
    "factor-gen build": "factor-gen build corpus.yaml",
    "factor-gen audit": f"factor-gen audit {SAMPLE / 'sample_factor.csv'} --judge-rows 4",
}
_SENTENCES = (
    "It was built in 1871. It stands by the river. Nobody lives there. Its keeper was a sailor."
)


class Judge:
    """What it says next is drawn from ``texts``."""

    def __init__(self) -> None:
        self.texts = HOSTILE
        self.server = JudgeServer(self._say)

    def _say(self, prompt: str, attempt: int) -> Act:
        text = random.Random(prompt).choice(self.texts)
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        content = {
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": text},
                }
            ]
        }
        return Act(raw=json.dumps({**content, "usage": usage}).encode())


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge()
    yield judge
    judge.server.close()


@pytest.fixture(scope="module")
def given_files(tmp_path_factory: pytest.TempPathFactory, judge: Judge) -> Path:
    """What the commands read: a few rows of each kind."""
    folder = tmp_path_factory.mktemp("given")
    content = {
        "backend": "openai",
        "model": "m",
        "base_url": judge.server.base_url,
        "concurrency": 16,
        "max_retries": 0,
    }
    (folder / "judge.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    (folder / "page.yaml").write_text(
        yaml.safe_dump({**content, "verify": "page"}), encoding="utf-8"
    )

    def lines(name: str, rows: list[object]) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )

    rows = [
        json.loads(line)
        for line in (SAMPLE / "sample_felm.jsonl").read_text(encoding="utf-8").splitlines()[:24]
    ]
    lines("felm/all.jsonl", rows)
    asked = [
        {name: row[name] for name in ("index", "domain", "prompt")} | {"reference_texts": []}
        for row in rows
    ]
    lines(
        "felm_gen.jsonl",
        [{"doc": doc, "resps": [[row["response"]]]} for doc, row in zip(asked, rows, strict=True)],
    )
    lines("pairs.jsonl", [{"claim": row["prompt"], "passages": [row["response"]]} for row in rows])
    content = json.loads((SAMPLE / "sample_ambigbio_generations.json").read_text(encoding="utf-8"))
    biographies = (content["data"] if isinstance(content, dict) else content)[:3]
    (folder / "biographies.json").write_text(json.dumps({"data": biographies}), encoding="utf-8")
    passages = [{"title": "The mill", "text": _SENTENCES}]
    lines(
        "longform.jsonl",
        [
            {
                "doc": {
                    "index": str(number),
                    "prompt": f"Tell me about mill {number}.",
                    "text": f"Tell me about mill {number}.",
                    "question": f"Tell me about mill {number}.",
                    "name": f"mill {number}",
                    "topic": "",
                    "docs": passages,
                    "evidence": "documents",
                },
                "resps": [[_SENTENCES]],
            }
            for number in range(3)
        ],
    )
    lines(
        "factor.jsonl",
        [{"doc": make_document(f"d{number}"), "resps": [[" the south."]]} for number in range(12)],
    )
    write_corpus(
        folder,
        documents=6,
        shard=6,
        select={"draws": 1},
        generate={"generator": "llm", "judge": "judge.yaml"},
    )
    return folder


def ask(
    command: str, folder: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """The exit code of a command, and what it said."""
    words = COMMANDS[command].split()
    words = [str(folder / word) if (folder / word).exists() else word for word in words]
    if words[0] != "factor-gen":
        words += [] if "--judge" in words else ["--judge", str(folder / "judge.yaml")]
        words += ["--store", str(out / STORE)]
    elif words[1] == "audit":
        words += ["--judge", str(folder / "judge.yaml")]
    if words[1] != "audit":
        words += [
            "--out",
            str(out / ("out.jsonl" if words[0] in ("claims", "verify", "certify") else "out")),
        ]
    code = factor_gen(words[1:]) if words[0] == "factor-gen" else lm_factuality(words)
    said = capsys.readouterr()
    return code, said.err + said.out


def survives(
    command: str,
    judge: Judge,
    folder: Path,
    out: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch,
) -> None:
    out.mkdir(exist_ok=True)
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(out / "home"))
    code, said = ask(command, folder, out, capsys)
    assert "Traceback" not in said
    assert code == 0 or any(
        why in said
        for why in (
            "nothing has a verdict",
            "got a verdict",
            "no claims of any",
            "no rows",
            "no verdict",
        )
    ), said[-600:]
    assert str(folder) not in said or "cannot be read" not in said, said[-600:]
    store = next(path for path in (out / STORE, out / "home" / STORE) if path.exists())
    with closing(AnswerStore(store)) as kept:
        keys = [key for (key,) in kept._database.execute("SELECT key FROM answers")]
        assert keys
        assert len(kept.get_many(keys)) == len(keys)
    before = len(judge.server.bodies)
    again, said = ask(command, folder, out, capsys)
    assert (again, len(judge.server.bodies)) == (code, before), said[-600:]
    assert "Traceback" not in said


IN_EVERY_RUN = ("verify", "claims extract", "judge ambigbio by page")


@pytest.mark.parametrize(
    "command",
    [
        each if each in IN_EVERY_RUN else pytest.param(each, marks=pytest.mark.slow)
        for each in COMMANDS
    ],
)
def test_hostile_replies_are_stored_and_read(
    command: str, judge: Judge, given_files: Path, tmp_path: Path, capsys, monkeypatch
):
    judge.texts = HOSTILE
    survives(command, judge, given_files, tmp_path / "out", capsys, monkeypatch)


NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from([10**30, -1, 0, 1, 2, float("inf"), float("nan")]),
    st.just(int("1" * 4000)),
)
KEYS = st.sampled_from(
    [
        "segments",
        "segment",
        "claims",
        "verdicts",
        "number",
        "reason",
        "verdict",
        "wrong",
        "type",
        "groups",
        "facts",
        "edits",
        "old",
        "new",
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | NUMBERS
    | st.text(max_size=12)
    | st.sampled_from(["supported", "not_supported", "\ud800", "\0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
# A server that says nothing at all has failed: it is asked again.
TEXTS = (
    st.text(st.characters(), max_size=60).filter(str.strip)
    | VALUES.map(json.dumps)
    | st.sampled_from(HOSTILE)
)


@pytest.mark.slow
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
@given(data=st.data())
def test_any_reply_is_stored_and_read(
    data, judge: Judge, given_files: Path, tmp_path_factory, capsys, monkeypatch
):
    command = data.draw(st.sampled_from(sorted(COMMANDS)))
    judge.texts = data.draw(st.lists(TEXTS, min_size=1, max_size=8))
    survives(command, judge, given_files, tmp_path_factory.mktemp("any"), capsys, monkeypatch)
