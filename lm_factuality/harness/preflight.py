"""Checks what a run needs before any model or data is loaded: packages, disk, tasks and server.

`lm-factuality run` makes all checks. With lm_eval's own command, `evaluation` makes those of the
tasks, which need no network. Each failure is one line that says what is wrong, where, and what to
do.
"""

import logging
import shutil
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from judges.backends.api_client import find_client_key
from judges.backends.server import OPENAI_KEY_VARIABLE
from lm_factuality.ground.errors import ConfigError, DataError, ModelError, listed, printable
from lm_factuality.ground.http import is_local, is_web_address
from lm_factuality.ground.packages import first_line, how_to_install
from lm_factuality.ground.replies import KeyMask

logger = logging.getLogger(__name__)

_CONNECT_SECONDS = 3.0
_ANSWER_SECONDS = 300.0  # lm_eval's default for its clients
_LEAST_FREE_BYTES = 20_000_000  # results with samples of all tasks of a benchmark take about this
_LONGEST_MESSAGE = 200  # characters of a server's message that an error quotes

_CHAT_PATH = "/chat/completions"
_COMPLETIONS_PATH = "/completions"
_DEFAULT_URLS = {
    "local-completions": "",
    "local-chat-completions": "",
    "openai-completions": f"https://api.openai.com/v1{_COMPLETIONS_PATH}",
    "openai-chat-completions": f"https://api.openai.com/v1{_CHAT_PATH}",
}
"""The model classes of lm_eval that ask an OpenAI-compatible server, each with its address."""

_MODULES = {
    **dict.fromkeys(_DEFAULT_URLS, "tenacity"),
    "vllm": "vllm",
    "vllm-vlm": "vllm",
    "sglang": "sglang",
}
"""The module that a model class of lm_eval imports when it is made."""

_EXTRAS = {"tenacity": "api", "vllm": "vllm"}
"""The extra of this package that installs a module."""


def check_package(model: str) -> None:
    """Check that the package behind a model class is installed.

    Args:
        model: The model class, from lm_eval's ``--model``.

    Raises:
        ConfigError: It is not installed.
    """
    module = _MODULES.get(model)
    if module is None or find_spec(module) is not None:
        return
    extra = _EXTRAS.get(module)
    advice = how_to_install(extra) if extra else f"pip install {module}"
    raise ConfigError(
        f"--model {model}: the package {module} is not installed; choose another --model, or"
        f" run {advice}"
    )


def check_disk_space(folder: Path) -> None:
    """Check that a folder's disk has room for results.

    Args:
        folder: The folder, which exists.

    Raises:
        DataError: The disk is full, or nearly so.
    """
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < _LEAST_FREE_BYTES:
        raise DataError(
            f"{folder}: the disk is full: {free_bytes / 1e6:.1f} MB are left, and a run needs"
            f" {_LEAST_FREE_BYTES / 1e6:.0f}; free some space, or choose another folder"
        )


def check_chat_template(model: str, arguments: Mapping[str, Any], applies_template: bool) -> None:
    """Check that the run applies a chat template where the model needs one, and has one.

    Args:
        model: The model class, from lm_eval's ``--model``.
        arguments: The model's arguments, from ``--model_args``.
        applies_template: Whether the run has ``--apply_chat_template``.

    Raises:
        ConfigError: A chat server would be sent plain text, or a local model has no template.
    """
    if is_chat_client(model) and not applies_template:
        raise ConfigError(
            f"--model {model}: a chat server is sent messages, not plain text; add"
            " --apply_chat_template"
        )
    tokenizer = arguments.get("tokenizer") or arguments.get("pretrained")
    if not (applies_template and model.startswith("hf") and tokenizer):
        return
    # Loading these tokenizers would run the model's own code, or read a large GGUF file.
    if arguments.get("trust_remote_code") or arguments.get("gguf_file"):
        return

    # This imports lm_eval, and submissions are checked without it.
    from lm_factuality.harness.thinking import chat_template_of

    if not chat_template_of(str(tokenizer)):
        raise ConfigError(
            f"--apply_chat_template: {tokenizer} has no chat template, so it is no chat model;"
            " leave the option out, or name an instruct model"
        )


def check_tasks_suit(model: str, scoring_tasks: Sequence[str]) -> None:
    """Check that the model can do what the tasks ask for.

    Args:
        model: The model class, from lm_eval's ``--model``.
        scoring_tasks: The names of those tasks whose texts the model has to score.

    Raises:
        ConfigError: A chat server would have to score texts.
    """
    if is_chat_client(model) and scoring_tasks:
        raise ConfigError(
            f"--tasks {listed(scoring_tasks)}: needs log-likelihoods of texts, which chat servers"
            f" do not give; ask --model {model} the tasks named ..._chat instead, or use --model"
            f" local-completions with the server's {_COMPLETIONS_PATH}"
        )


def check_server(model: str, arguments: Mapping[str, Any], needs_scores: bool) -> None:
    """Check that a server answers at its URL, accepts the key and has the model.

    The server is asked for one token. The check takes the time of its reply, and at most 3 s where
    nothing answers. A server that is busy (HTTP 429) passes, because the run waits for it.

    Args:
        model: The model class, from lm_eval's ``--model``. Other classes than lm_eval's clients of
            OpenAI-compatible servers are not checked.
        arguments: The model's arguments, from ``--model_args``.
        needs_scores: Whether a task needs the log-likelihoods of texts.

    Raises:
        ConfigError: The address, the key or the name of the model cannot be used.
        ModelError: No server answers, or it does not answer as it should.
    """
    if not is_client(model):
        return
    server = _Server(
        client=model,
        url=str(arguments.get("base_url") or _DEFAULT_URLS[model]),
        model=str(arguments.get("model") or arguments.get("pretrained") or ""),
        options=arguments,
    )
    _check_address(server)
    with _open_client(server) as client:
        reply = _ask_for_one_token(client, server, needs_scores)
        served_models = _list_models(client, server)
    problem = _explain_refusal(reply, server, served_models)
    if problem:
        raise ModelError(f"{server.url}: {problem}")
    if reply.status_code == httpx.codes.OK:
        _check_reply(reply, server, needs_scores)
    if served_models and server.model not in served_models:
        logger.warning(
            "%s: lists the models %s, but not %s; see that the model that answers is the one that"
            " you mean",
            server.url,
            listed(served_models),
            server.model,
        )


def is_client(model: str) -> bool:
    """Tell whether a model class of lm_eval is the client of an OpenAI-compatible server."""
    return model in _DEFAULT_URLS


def is_chat_client(model: str) -> bool:
    """Tell whether a model class of lm_eval is the client of an OpenAI-compatible chat server."""
    return is_client(model) and "chat" in model


@dataclass(frozen=True)
class _Server:
    """A server, as the arguments of lm_eval's client describe it."""

    client: str
    """The model class, such as ``local-chat-completions``."""

    url: str
    """Its address, such as ``http://localhost:8000/v1/chat/completions``."""

    model: str
    """The name of the model on the server."""

    options: Mapping[str, Any]
    """All arguments, among which are the timeout and the certificates."""

    @property
    def key(self) -> str:
        """The key; empty if none is sent."""
        return find_client_key(self.url, self.options.get("api_key_env", ""))

    @property
    def path(self) -> str:
        """How the path of the address has to end."""
        return _CHAT_PATH if is_chat_client(self.client) else _COMPLETIONS_PATH


def _check_address(server: _Server) -> None:
    """Check the address of a server and the name of its model, before anything is sent.

    Raises:
        ConfigError: The address or the name is missing, or the address is no web address or lacks
            the path of the API.
    """
    example = f"http://localhost:8000/v1{server.path}"
    if not server.url:
        raise ConfigError(
            f"--model {server.client}: at which address? Add base_url={example} to --model_args"
        )
    option = f"--model_args base_url={server.url}"
    if not is_web_address(server.url):
        raise ConfigError(f"{option}: not a web address; expected something like {example}")
    if urlsplit(server.url).path.rstrip("/") in ("", "/v1"):
        raise ConfigError(
            f"{option}: lm_eval's clients need the whole address; write"
            f" base_url={_api_root(server.url)}{server.path}"
        )
    if not server.model:
        raise ConfigError(
            f"--model {server.client}: which model of the server? Add model=NAME to --model_args"
        )


def _api_root(url: str) -> str:
    """Return the address that the paths of the API are added to, such as ``https://host/v1``."""
    root = url.rstrip("/")
    for path in (_CHAT_PATH, _COMPLETIONS_PATH):
        root = root.removesuffix(path)
    return root if urlsplit(root).path else f"{root}/v1"


def _open_client(server: _Server) -> httpx.Client:
    """Return an HTTP client with the headers, certificates and time limit of lm_eval's client."""
    options = server.options
    verify: ssl.SSLContext | bool = options.get("verify_certificate") is not False
    if options.get("ca_cert_path"):
        verify = ssl.create_default_context(cafile=str(options["ca_cert_path"]))
    # httpx would log a line for every request.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return httpx.Client(
        headers={"Authorization": f"Bearer {server.key}"} if server.key else None,
        verify=verify,
        timeout=httpx.Timeout(
            float(options.get("timeout") or _ANSWER_SECONDS), connect=_CONNECT_SECONDS
        ),
        # A local server is not reached through the proxies of the environment.
        trust_env=not is_local(server.url),
    )


def _ask_for_one_token(client: httpx.Client, server: _Server, needs_scores: bool) -> httpx.Response:
    """Ask the server for one token, as the run will ask it for texts or scores.

    Args:
        client: The HTTP client.
        server: The server, whose kind of API decides the form of the request.
        needs_scores: Whether to ask for the log-probabilities of the prompt too.

    Raises:
        ModelError: No server answers.
    """
    body: dict[str, Any] = {"model": server.model, "max_tokens": 1}
    if is_chat_client(server.client):
        body["messages"] = [{"role": "user", "content": "Hello"}]
    else:
        body["prompt"] = "Hello world"
    if needs_scores:
        body |= {"echo": True, "logprobs": 1, "temperature": 0}
    try:
        return client.post(server.url, json=body)
    except httpx.ReadTimeout as error:
        seconds = client.timeout.read
        raise ModelError(
            f"{server.url}: the server gave no answer within {seconds:g} s; see what it is doing,"
            " or raise timeout=SECONDS in --model_args"
        ) from error
    except httpx.HTTPError as error:
        raise ModelError(
            f"{server.url}: no server answers here ({first_line(error)}); start it, or correct"
            " base_url in --model_args"
        ) from error


def _list_models(client: httpx.Client, server: _Server) -> list[str]:
    """Return the names of the server's models; empty if it does not list them."""
    try:
        reply = client.get(f"{_api_root(server.url)}/models", timeout=_CONNECT_SECONDS)
        return [str(model["id"]) for model in reply.json()["data"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        # Many servers have no such list.
        return []


def _explain_refusal(reply: httpx.Response, server: _Server, served_models: Sequence[str]) -> str:
    """Explain why a server did not answer the request for one token, and what the user can do.

    Args:
        reply: The server's reply.
        server: The server.
        served_models: The names of its models; empty if it does not list them.

    Returns:
        A problem such as ``HTTP 503: Loading; see the server's log, and start the run when it is
        ready``; empty if the run can begin.
    """
    status = reply.status_code
    message = _message_of(reply, server.key)
    problem = f"HTTP {status}: {message}"
    if reply.is_success:
        return ""
    if status == httpx.codes.TOO_MANY_REQUESTS:
        # OpenAI also sends 429 when the account has no money, which waiting does not change.
        has_no_money = "insufficient_quota" in reply.text
        return f"{problem}; the account has no money left" if has_no_money else ""
    # Some models refuse `max_tokens`. The server says so only once everything else is right.
    if reply.is_client_error and "max_tokens" in message:
        return ""
    if reply.is_redirect:
        target = printable(reply.headers.get("location", "nowhere"))
        return f"the server redirects to {target}; write that address as base_url in --model_args"
    if reply.is_server_error:
        return f"{problem}; see the server's log, and start the run when it is ready"
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return f"{problem}; {_advice_on_key(server)}"
    if status in (httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED):
        if served_models and server.model not in served_models:
            return f"{problem}; the server has {listed(served_models)}, not model={server.model}"
        return f"{problem}; base_url in --model_args should mostly end in /v1{server.path}"
    return f"the server refuses a request for one token: {problem}"


def _advice_on_key(server: _Server) -> str:
    """Say what to do about a key that a server does not accept, or that was not sent."""
    if not server.key:
        return (
            f"no key was sent: set {OPENAI_KEY_VARIABLE}, or name another variable with"
            " api_key_env=NAME in --model_args"
        )
    variable = server.options.get("api_key_env") or OPENAI_KEY_VARIABLE
    return f"the key in the environment variable {variable} is not accepted"


def _message_of(reply: httpx.Response, key: str) -> str:
    """Return the message in a server's reply, without the key, as a text that is safe to print.

    Args:
        reply: The reply. ``{"error": {"message": "No such model"}}`` gives ``No such model``. A
            reply without such a field is quoted as it is, up to 200 characters.
        key: The key, which some servers repeat in their messages.
    """
    try:
        content = reply.json()
    except ValueError:
        content = reply.text
    # Servers reply {"error": {"message": TEXT}}, {"error": TEXT}, {"message": TEXT} or {"detail":
    # TEXT}. A key that a reply lacks is passed over.
    for name in ("error", "message", "detail"):
        if isinstance(content, dict):
            content = content.get(name) or content
    one_line = " ".join(str(content).split())
    message = KeyMask(key).mask_text(one_line or reply.reason_phrase)
    return printable(message[:_LONGEST_MESSAGE])


def _check_reply(reply: httpx.Response, server: _Server, needs_scores: bool) -> None:
    """Check that a reply has the form of an OpenAI-compatible server.

    Args:
        reply: The reply to the request for one token.
        server: The server.
        needs_scores: Whether the reply must have the log-probabilities of the prompt.

    Raises:
        ModelError: The reply has another form, or lacks the log-probabilities of the prompt.
    """
    try:
        choice = reply.json()["choices"][0]
        logprobs = choice.get("logprobs")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{server.url}: the reply is not that of an OpenAI-compatible server:"
            f" {_message_of(reply, server.key)}; correct base_url in --model_args"
        ) from error
    if needs_scores and not logprobs:
        raise ModelError(
            f"{server.url}: the server gives no log-probabilities of prompts (echo with logprobs),"
            " which the tasks need; vLLM's server gives them"
        )
