"""``--dry-run`` never promises less than what judging comes to, however finely a judge splits
facts."""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judges.answers import Answer, Backend, Decoding, TokenCounter
from judges.config import JudgeConfig
from judges.judge import Judge
from judges.store import AnswerStore
from judges.templates import Prompts
from lm_factuality.benchmarks.biographies.generations import to_doc
from lm_factuality.benchmarks.biographies.judging import AMBIGBIO
from lm_factuality.benchmarks.biographies.types import Generation, Passage

COUNT = TokenCounter(None)


class Splitter(Backend):
    """A judge of whitespace tokens, and a dollar each: as many facts as its tokens allow, each as
    long as ``longest`` words; ``is_bad`` says of each request whether its answer cannot be used."""

    identity, reads_subject = "splitter", False

    def __init__(self, is_bad, longest=2):
        self.is_bad, self.longest, self.sent = is_bad, longest, []

    def estimate(self, requests):
        return COUNT.estimate(requests, lambda prompt, completion: prompt + completion)

    def answer(self, requests):
        for number, request in enumerate(requests):
            text = self._say(request)
            self.sent.append((request, text))
            yield number, Answer(text, "stop")

    def _say(self, request):
        if self.is_bad(len(self.sent)):
            return "no " * request.decoding.max_tokens
        kind, subject = request.subject["kind"], request.subject
        if kind == "decompose":
            count = max(1, request.decoding.max_tokens // self.longest)
            words = (f"w{len(self.sent)}x{number}" for number in itertools.count())
            return json.dumps(
                {
                    "facts": [
                        " ".join(itertools.islice(words, max(2, self.longest)))
                        for _ in range(count)
                    ]
                }
            )
        if kind == "group":
            return json.dumps({"groups": [list(range(1, len(subject["facts"]) + 1))]})
        if "claims" in subject:
            return json.dumps({"verdicts": [{"number": 1, "reason": "", "verdict": "supported"}]})
        return json.dumps({"reason": "", "verdict": "supported", "probability": None})


def respond(sentences, entities, passages=1):
    """Passages of a page have words of different facts, so that each fact is shown other ones."""
    output = " ".join(f"Ada Lind painted harbour number {number}." for number in range(sentences))
    given = tuple(
        Passage(
            f"Ada Lind ({number})",
            "She painted. " * (number + 1) + f" w0x{place} w1x{place} " + "and more " * place,
        )
        for number in range(entities)
        for place in range(passages)
    )
    return Generation("0", "Tell me a bio of Ada Lind", "Ada Lind", output, given)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    tokens=st.integers(2, 14),
    thinking=st.sampled_from([None, None, 8]),
    responses=st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 3), st.sampled_from([1, 12])),
        min_size=1,
        max_size=2,
    ),
    longest=st.integers(2, 6),
    verify=st.sampled_from(["fact", "page"]),
    samples=st.integers(1, 2),
    bad=st.sampled_from(["none", "all", "first", "every third"]),
)
def test_no_judge_exceeds_the_plan(tokens, thinking, responses, longest, verify, samples, bad):
    is_bad = {
        "none": lambda n: False,
        "all": lambda n: True,
        "first": lambda n: n < 3,
        "every third": lambda n: n % 3 == 0,
    }[bad]
    how = {
        "decoding": Decoding(max_tokens=tokens),
        "thinking_tokens": thinking,
        "verify": verify,
        "samples": samples,
    }
    config = JudgeConfig("splitter", "openai", model="m", **how)
    generations = [respond(*each) for each in responses]
    docs, texts = [to_doc(each) for each in generations], [[each.output] for each in generations]
    with tempfile.TemporaryDirectory() as folder:
        backend = Splitter(is_bad, longest)
        with Judge(
            config, backend, AnswerStore(Path(folder) / "answers.sqlite"), Prompts()
        ) as judge:
            plans = dict(AMBIGBIO.plan(judge, docs, texts))
            assert not backend.sent
            AMBIGBIO.judge(judge, docs, texts)
    kinds = {"decompose": "decomposing", "group": "grouping"}
    for step, plan in plans.items():
        sent = [
            (request, text)
            for request, text in backend.sent
            if kinds.get(request.subject["kind"], "verifying") == step
        ]
        assert len(sent) <= plan.at_most.calls, step
        assert (
            sum(request.decoding.max_tokens for request, _ in sent)
            <= plan.at_most.max_completion_tokens
        ), step
        cost = sum(COUNT.at_most(request) + len(text.split()) for request, text in sent)
        assert cost <= plan.at_most.max_cost, step
        assert plan.to_send <= plan.at_most.calls


@pytest.mark.parametrize("verify", ["fact", "page"])
def test_what_is_on_disk_is_planned_as_it_is(verify, tmp_path):
    config = JudgeConfig(
        "splitter", "openai", model="m", decoding=Decoding(max_tokens=8), verify=verify
    )
    generations = [respond(2, 2), respond(3, 1)]
    docs, texts = [to_doc(each) for each in generations], [[each.output] for each in generations]
    backend = Splitter(lambda number: False)
    with Judge(config, backend, AnswerStore(tmp_path / "answers.sqlite"), Prompts()) as judge:
        before = dict(AMBIGBIO.plan(judge, docs, texts))
        assert before["verifying"].at_most.calls > before["verifying"].to_send > 0
        AMBIGBIO.judge(judge, docs, texts)
        after = dict(AMBIGBIO.plan(judge, docs, texts))
        assert {plan.to_send for plan in after.values()} == {0}
        # Of a page it is not known beforehand which facts the replies on disk leave out.
        assert sum(plan.at_most.calls for plan in after.values()) <= (8 if verify == "page" else 0)
        assert after["verifying"].total <= before["verifying"].at_most.calls


def test_a_page_at_once_may_show_more_passages_than_one_fact(tmp_path):
    """Long passages, and a fact for each: the question about their page holds them all, and its
    replies cannot be used."""
    output = "Ada Lind painted one harbour, one lake, one river, one mill and one town."
    given = tuple(
        Passage("Ada Lind", f"w0x{place} " + "harbour of a long page " * 2000)
        for place in range(0, 16, 2)
    )
    generation = Generation("0", "Tell me a bio of Ada Lind", "Ada Lind", output, given)
    config = JudgeConfig(
        "splitter", "openai", model="m", decoding=Decoding(max_tokens=16), verify="page"
    )
    backend = Splitter(lambda number: number > 1)
    with Judge(config, backend, AnswerStore(tmp_path / "answers.sqlite"), Prompts()) as judge:
        plan = dict(AMBIGBIO.plan(judge, [to_doc(generation)], [[output]]))["verifying"]
        AMBIGBIO.judge(judge, [to_doc(generation)], [[output]])
    sent = [
        (request, text)
        for request, text in backend.sent
        if request.subject["kind"] not in ("decompose", "group")
    ]
    assert sent[0][0].prompt.count("Title: ") == 8
    assert (
        sum(COUNT.at_most(request) + len(text.split()) for request, text in sent)
        <= plan.at_most.max_cost
    )
