"""Dry runs foresee what a judge is asked, before and after it has answered."""

import json

import pytest
import yaml

from judges import LEXICAL
from judges.answers import Request
from judges.backends.lexical import LexicalBackend
from judges.config import load_judge_config
from judges.judge import Judge
from judges.templates import Prompts
from lm_factuality.benchmarks.biographies.generations import generation_to_doc
from lm_factuality.benchmarks.biographies.method import AmbigBio
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from tests.judges.server import Act, JudgeServer

NAMES = ("Ada Lind", "Ove Berg", "Ine Dahl", "Siv Moe")
OUTPUT = (
    "NAME was a painter who was born in Oslo in 1901 and died in Bergen in 1970 [1]. "
    "She painted harbours and ships along the western coast, and taught at the school of arts [1]. "
    "Another NAME was a sailor who sailed round the world alone in the summer of 1950 [2]. "
    "She wrote two books about her journeys, which were read by many young people in Norway [2]."
)


class RecordingPrompts(Prompts):
    """Prompts that remember what each was rendered of."""

    def __init__(self):
        """Begin without any."""
        super().__init__()
        self.subjects = {}

    def render(self, name, variables):
        """Render a prompt, and remember its variables."""
        prompt = super().render(name, variables)
        self.subjects[prompt] = variables
        return prompt


def split_words(text, words_per_fact):
    """Cut a text into facts of so many words."""
    words = text.split()
    return [
        "She knew " + " ".join(words[start : start + words_per_fact])
        for start in range(0, len(words), words_per_fact)
    ]


@pytest.fixture(params=[5, 9], ids=["many facts", "few facts"])
def open_judge(request, tmp_path, monkeypatch):
    """Return a function that opens a judge whose server finds a fact in every 5 or 9 words.

    In all other questions the server answers as the offline judge. The function's argument is the
    judge's setting ``verify``: "fact" for a question per fact, or "page" for one per page.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-nobody")
    offline = LexicalBackend(load_judge_config(LEXICAL))
    prompts = RecordingPrompts()

    def answer(prompt, attempt):
        subject = prompts.subjects[prompt]
        (arrival,) = offline.answer([Request(prompt, subject=subject)])
        content = json.loads(arrival.answer.text)
        if subject["kind"] == "decompose":
            content["facts"] = split_words(subject["sentence"], request.param)
        if subject["kind"] == "joint":
            content["facts"] = [
                {**content["facts"][0], "sentence": sentence["number"], "fact": fact}
                for sentence in subject["sentences"]
                for fact in split_words(sentence["text"], request.param)
            ]
        tokens = {"prompt_tokens": round(len(prompt) / 3.5), "completion_tokens": 5}
        return Act(text=json.dumps(content), usage=tokens)

    server = JudgeServer(answer)
    path = tmp_path / "judge.yaml"

    def open_with(verify):
        config = {"backend": "openai", "model": "small-judge", "base_url": server.base_url}
        path.write_text(yaml.safe_dump({**config, "verify": verify}))
        opened = Judge.open(load_judge_config(str(path)), tmp_path / "store.sqlite")
        opened.prompts = prompts
        return opened

    yield open_with
    server.close()


@pytest.fixture
def responses():
    """Documents about four names with two pages each, and the response to each."""
    texts = []
    for name in NAMES:
        passages = (
            RetrievedPassage(f"{name} (painter)", f"{name} was a painter. She was born in Oslo."),
            RetrievedPassage(f"{name} (sailor)", f"{name} was a sailor. She sailed in 1950."),
        )
        output = OUTPUT.replace("NAME", name)
        texts.append(GeneratedText(name, f"Tell me a bio of {name}", name, output, passages))
    return [generation_to_doc(text) for text in texts], [(text.output,) for text in texts]


@pytest.mark.parametrize("method", ["stepwise", "joint"])
@pytest.mark.parametrize("verify", ["fact", "page"])
def test_plan_estimates_requests_and_tokens(open_judge, responses, method, verify):
    """A user decides by the dry run whether they can pay for the real one."""
    docs, outputs = responses
    benchmark = AmbigBio(method=method)
    with open_judge(verify) as judge:
        plans = benchmark.plan_questions(judge, docs, outputs)
        benchmark.judge(judge, docs, outputs)
        usage = judge.usage

    # A plan guesses how many facts a text has, and may be wrong by this factor.
    tolerance = 1.5
    planned_requests = sum(plan.to_send for _, plan in plans)
    planned_tokens = sum(plan.estimate.prompt_tokens for _, plan in plans)
    assert usage.calls / tolerance < planned_requests < usage.calls * tolerance
    assert usage.prompt_tokens / tolerance < planned_tokens < usage.prompt_tokens * tolerance


@pytest.mark.parametrize("method", ["stepwise", "joint"])
@pytest.mark.parametrize("verify", ["fact", "page"])
def test_plan_is_empty_if_all_answers_are_stored(open_judge, responses, method, verify):
    """Answers in the store cost nothing, so a second run of the same responses is free."""
    docs, outputs = responses
    benchmark = AmbigBio(method=method)
    with open_judge(verify) as judge:
        benchmark.judge(judge, docs, outputs)
        num_calls = judge.usage.calls

        plans = benchmark.plan_questions(judge, docs, outputs)

    assert sum(plan.to_send for _, plan in plans) == 0
    assert sum(plan.estimate_with_retries.calls for _, plan in plans) == 0
    assert sum(plan.stored for _, plan in plans) == num_calls
