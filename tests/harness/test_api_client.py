"""What lm_eval's clients of servers send once the suite has opened them, and what they keep."""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing

import pytest
import yaml
from lm_eval.api.instance import Instance
from lm_eval.models.api_models import JsonChatStr

from lm_factuality import api
from lm_factuality.ground.errors import ConfigError
from tests.conftest import TASKS
from tests.judges.server import Act, JudgeServer

KEY = "not-a-real-key"
NUM_SAMPLES = 9


@pytest.fixture
def server(monkeypatch) -> Iterator[JudgeServer]:
    """Run a server of a chat model, with OpenAI's key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with closing(JudgeServer(lambda prompt, attempt: Act(text="Answer: ALL_CORRECT"))) as server:
        yield server


def open_client(server: JudgeServer, **arguments):
    """Open the client of the server's chat endpoint, as ``run`` does."""
    defaults = {"model": "m", "base_url": f"{server.base_url}/chat/completions"}
    return api.open_model("local-chat-completions", **{**defaults, **arguments})


@pytest.fixture
def felm_tasks(tmp_path):
    """Write the task ``sampled``, which takes nine samples of each prompt of FELM's sample."""
    task = {
        "include": str(TASKS / "sample" / "sample_felm.yaml"),
        "task": "sampled",
        "dataset_path": str(TASKS / "sample" / "sample_felm.jsonl"),
        "repeats": NUM_SAMPLES,
        "generation_kwargs": {"do_sample": True, "temperature": 0.7, "max_gen_toks": 100},
    }
    (tmp_path / "sampled.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    return tmp_path


def seeds_by_prompt(server: JudgeServer) -> list[list[int | None]]:
    """Return the seeds that the server received for each prompt."""
    seeds = defaultdict(list)
    for body in server.bodies:
        seeds[json.dumps(body["messages"])].append(body.get("seed"))
    return list(seeds.values())


def evaluate(model, tasks, **options):
    """Evaluate two rows of tasks in memory."""
    return api.evaluate(model, tasks, limit=2, apply_chat_template=True, **options)


@pytest.mark.parametrize("num_concurrent", [1, 4])
def test_each_sample_of_a_row_has_its_own_seed(server, felm_tasks, num_concurrent):
    """Samples with one seed would all be the same text."""
    client = open_client(server, num_concurrent=num_concurrent)

    evaluate(client, ["sampled"], include_path=[str(felm_tasks)])

    rows = seeds_by_prompt(server)
    assert len(rows) == 2
    for seeds in rows:
        assert sorted(seeds) == list(range(1234, 1234 + NUM_SAMPLES))


def test_model_seed_is_used_for_the_first_sample(server, felm_tasks):
    """The user can draw other samples by another seed. The following samples count on from it."""
    evaluate(open_client(server, seed=7), ["sampled"], include_path=[str(felm_tasks)])

    assert sorted(seeds_by_prompt(server)[0]) == list(range(7, 7 + NUM_SAMPLES))


def test_a_seed_of_none_is_not_sent(server, felm_tasks):
    """Some servers refuse a request with a seed."""
    evaluate(open_client(server, seed=None), ["sampled"], include_path=[str(felm_tasks)])

    assert len(server.bodies) == 2 * NUM_SAMPLES
    assert not any("seed" in body for body in server.bodies)


def test_no_empty_stop_is_sent(server):
    """Some servers refuse an empty list of stop texts."""
    client = open_client(server)

    evaluate(client, ["sample_felm"], gen_kwargs={"until": []})

    assert server.bodies
    assert not any("stop" in body for body in server.bodies)


@pytest.fixture
def client_log(caplog, monkeypatch):
    """Return the log with the lines of the clients, which lm_eval's logger may not pass on."""
    logger = logging.getLogger("lm_eval.models")
    monkeypatch.setattr(logger, "propagate", False)
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)


@pytest.mark.parametrize("num_concurrent", [1, 4])
@pytest.mark.parametrize(
    ("arguments", "key"),
    [({}, KEY), ({"api_key_env": "MY_KEY"}, "another-key"), ({"api_key_env": "none"}, None)],
)
def test_a_server_gets_the_key_of_the_named_variable(
    server, monkeypatch, arguments, key, num_concurrent
):
    """A user may have keys for several servers, each in a variable of the environment."""
    monkeypatch.setenv("MY_KEY", "another-key")

    evaluate(open_client(server, num_concurrent=num_concurrent, **arguments), ["sample_felm"])

    expected = f"Bearer {key}" if key else None
    assert {headers.get("authorization") for headers in server.headers} == {expected}


SPLIT_KEY = " ".join(KEY)


@pytest.mark.parametrize("num_concurrent", [1, 4])
def test_key_repeated_by_the_server_is_masked_in_samples(server, num_concurrent):
    """People publish samples, so the key becomes "***" in them."""
    server.script = lambda prompt, attempt: Act(text=f"{SPLIT_KEY} is wrong\ud800\0.")

    client = open_client(server, num_concurrent=num_concurrent)
    rows = evaluate(client, ["sample_felm"]).rows()

    assert [row["resps"] for row in rows] == [[["*** is wrong\ufffd\ufffd."]]] * 2


@pytest.mark.parametrize("num_concurrent", [1, 4])
def test_server_error_is_logged_without_the_key(server, client_log, num_concurrent):
    """Some servers repeat the key of a request in their error."""
    server.script = lambda prompt, attempt: Act(status=400, text=f"{SPLIT_KEY} is wrong")
    client = open_client(server, num_concurrent=num_concurrent, max_retries=1)
    prompt = JsonChatStr('[{"role": "user", "content": "Hi"}]')
    request = Instance("generate_until", {}, (prompt, {}), 0)

    with pytest.raises(Exception, match="400"):
        client.generate_until([request])

    assert "*** is wrong" in client_log.text
    assert SPLIT_KEY not in client_log.text


@pytest.mark.parametrize("num_concurrent", [1, 4])
def test_reply_of_more_than_a_megabyte_is_not_read(server, client_log, num_concurrent):
    """A server that never stops must not fill the memory."""
    server.script = lambda prompt, attempt: Act(text="a" * 1_000_001)

    evaluate(open_client(server, num_concurrent=num_concurrent), ["sample_felm"])

    assert "a text of more than 1,000,000 bytes is not read" in client_log.text


def test_log_names_the_host_receiving_the_key(server, client_log):
    """A user sees if a key goes to a server that it is not for."""
    open_client(server)

    assert client_log.text.count(f"OPENAI_API_KEY is sent to 127.0.0.1:{server.port}") == 1
    assert KEY not in client_log.text


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"api_key_env": "none"}, id="no key is sent"),
        pytest.param(
            {"base_url": "https://api.openai.com/v1/chat/completions"},
            id="the key for OpenAI is sent to OpenAI",
        ),
    ],
)
def test_log_names_no_host_if_no_other_host_gets_the_key(server, client_log, arguments):
    """A warning that always comes is not read."""
    open_client(server, **arguments)

    assert "is sent to" not in client_log.text


@pytest.mark.parametrize("name", ["UNSET_KEY", "sk-not-a-name-1234567890abcdef"])
def test_unset_key_variable_is_refused(server, name):
    """Some users paste the key in place of the name of its variable, so it is not printed."""
    with pytest.raises(ConfigError, match="environment variable") as refusal:
        open_client(server, api_key_env=name)

    assert "1234567890abcdef" not in str(refusal.value)


def refuse(server: JudgeServer, *options: str):
    """Let the server refuse options, one at a time."""

    def reply(prompt: str, attempt: int) -> Act:
        for option in options:
            if option in server.bodies[-1]:
                return Act(status=400, text=f"Unsupported parameter: '{option}'")
        return Act(text="Answer: ALL_CORRECT")

    server.script = reply


@pytest.mark.parametrize("num_concurrent", [1, 2])
@pytest.mark.parametrize("option", ["seed", "max_tokens", "temperature"])
def test_refused_option_is_omitted_for_the_rest_of_the_run(server, option, num_concurrent):
    """Asking with the option each time would double the number of requests."""
    refuse(server, option)
    client = open_client(server, num_concurrent=num_concurrent)

    results = api.evaluate(client, ["sample_felm"], limit=6, apply_chat_template=True)

    num_refused = sum(option in body for body in server.bodies)
    metadata = results.files[0].tasks[0].metadata
    assert num_refused <= num_concurrent
    assert len(server.bodies) == 6 + num_refused
    assert metadata["refused_options"] == [option]


def test_several_refused_options_are_omitted(server):
    """Servers name one refused option in each reply, so the request is tried repeatedly."""
    refuse(server, "seed", "max_tokens", "temperature")

    results = evaluate(open_client(server), ["sample_felm"])

    metadata = results.files[0].tasks[0].metadata
    num_prompts_sent_once = Counter(server.attempts.values())[1]
    assert metadata["refused_options"] == ["max_tokens", "seed", "temperature"]
    assert set(server.bodies[-1]) == {"messages", "model", "max_completion_tokens", "stop"}
    assert num_prompts_sent_once == 1


@pytest.mark.parametrize("num_concurrent", [1, 4])
def test_continued_run_reports_previously_refused_options(server, tmp_path, num_concurrent):
    """Results must say which options the kept answers were made without."""
    refuse(server, "seed")
    arguments = {
        "tasks": ["sample_felm"],
        "model": "local-chat-completions",
        "model_args": {
            "model": "m",
            "base_url": f"{server.base_url}/chat/completions",
            "num_concurrent": num_concurrent,
        },
        "limit": 2,
        "apply_chat_template": True,
        "use_cache": str(tmp_path / "kept"),
    }
    api.run(output_path=tmp_path / "first", **arguments)
    num_requests_of_first_run = len(server.bodies)

    continued = api.run(output_path=tmp_path / "second", **arguments)

    metadata = continued.files[0].tasks[0].metadata
    assert len(server.bodies) == num_requests_of_first_run + 1
    assert metadata["refused_options"] == ["seed"]


def test_server_thoughts_are_saved_but_not_scored(server):
    """The thought names an error, and the answer says that there is none."""
    message = {"content": "Answer: ALL_CORRECT", "reasoning_content": "Answer: 1"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    server.script = lambda prompt, attempt: Act(raw=json.dumps({"choices": [choice]}).encode())

    (row, _) = evaluate(open_client(server), ["sample_felm"]).rows()

    assert row["resps"] == [["<think>Answer: 1</think>Answer: ALL_CORRECT"]]
    assert row["filtered_resps"] == ["Answer: ALL_CORRECT"]


def test_empty_answer_after_hidden_thoughts_names_the_setting_to_change(server):
    """Some servers count thoughts as tokens and do not show them, so that no answer comes."""
    server.script = lambda prompt, attempt: Act(text="", finish_reason="length")

    (reason,) = evaluate(open_client(server), ["sample_felm"]).unscored()

    assert reason["reason"] == "thinking without an end"
    assert "hidden" in reason["cure"]
    assert "thinking_tokens=N" in reason["cure"]


@pytest.mark.parametrize(
    "task", ["sample_factor_generation", "sample_factor", "sample_factor_perplexity"]
)
def test_task_unsupported_by_chat_servers_is_refused_before_any_request(server, task):
    """The other task of the run would cost money in vain."""
    client = open_client(server)

    with pytest.raises(ConfigError, match=f"--tasks {task}: needs log-likelihoods"):
        evaluate(client, ["sample_felm", task], metadata={"judge": "lexical"})

    assert server.bodies == []


def test_excluded_key_and_options_are_not_sent(server, tmp_path):
    """Some servers refuse an unknown key or a seed."""
    results = api.run(
        ["sample_felm"],
        "local-chat-completions",
        tmp_path,
        model_args={
            "model": "m",
            "base_url": f"{server.base_url}/chat/completions",
            "api_key_env": "none",
            "seed": None,
        },
        limit=2,
        apply_chat_template=True,
    )

    assert len(results.rows()) == 2
    for headers, body in zip(server.headers, server.bodies, strict=True):
        assert "authorization" not in headers
        assert "seed" not in body
    for path in tmp_path.rglob("*.json*"):
        assert KEY not in path.read_text(encoding="utf-8")
