"""Ways to reach a model, a file each, and the one table of them.

``openai_http`` any OpenAI-compatible server, ``lm_eval_model`` any model of lm_eval, ``lexical`` no model at all. The other
modules are parts of the first. A new backend is a module with ``open_backend(config, purse)`` and its entry in ``BACKENDS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judges.answers import Backend
    from judges.backends.limits import Purse
    from judges.config import JudgeConfig


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do, for whoever has to know before it is opened. The defaults are those of a language model behind HTTP.

    ``reads_prompts``: a model reads the prompt; otherwise the subject of a request decides, and only subjects of these ``kinds``
    get an answer (None: any). ``needs_evidence``: a claim without passages gets no verdict. ``is_reproducible``: the same version
    of the suite gives the same answers anywhere, if no options are set but ``portable_options``. ``takes_schema``: answers can be
    held to a JSON schema. ``runs_here``: the model is in this process, not behind a service.
    """

    reads_prompts: bool = True
    kinds: tuple[str, ...] | None = None
    needs_evidence: bool = False
    is_reproducible: bool = False
    takes_schema: bool = False
    portable_options: tuple[str, ...] = ()
    runs_here: bool = False

    def can_answer(self, kind: str) -> bool:
        """Whether requests about subjects of this ``kind`` (``verify``, ``segments``, ...) can get an answer."""
        return self.kinds is None or kind in self.kinds


@dataclass(frozen=True)
class Entry:
    """The module of a backend, the keys of its YAML beside those that all have, what its ``model`` names, and what it can do."""

    module: str
    keys: tuple[str, ...]
    model_is: str = ""
    capabilities: Capabilities = Capabilities()


_SERVER = (
    *("model", "base_url", "api_key_env", "endpoint", "max_tokens_name", "schema", "tokenizer", "extra_body", "verdicts"),
    *("verify", "prices", "thinking_tokens"),
)
_LIMITS = ("concurrency", "timeout", "total_timeout", "max_retries", "requests_per_minute", "tokens_per_minute", "max_cost")

BACKENDS: Mapping[str, Entry] = {
    "openai": Entry(
        "judges.backends.openai_http",
        (*_SERVER, *_LIMITS),
        model_is="the name by which the server knows it",
        capabilities=Capabilities(takes_schema=True),
    ),
    "lm_eval": Entry(
        "judges.backends.lm_eval_model",
        ("model", "model_args", "apply_chat_template", "verdicts", "verify", "thinking_tokens"),
        model_is="the name of a model class (hf, vllm, ...)",
        capabilities=Capabilities(runs_here=True),
    ),
    "lexical": Entry(
        "judges.backends.lexical",
        ("options",),
        capabilities=Capabilities(
            reads_prompts=False,
            kinds=("verify", "segments", "claims", "marks", "decompose", "group"),
            needs_evidence=True,
            is_reproducible=True,
            portable_options=("threshold",),
            runs_here=True,
        ),
    ),
}


def capabilities(backend: str) -> Capabilities:
    """What the backend of this name can do; of a name from elsewhere that is in no table, what a language model can."""
    return BACKENDS[backend].capabilities if backend in BACKENDS else Capabilities()


def open_backend(config: JudgeConfig, purse: Purse | None = None) -> Backend:
    """The way to reach the model of ``config``; ``purse`` is the money that it shares with others."""
    backend: Backend = import_module(BACKENDS[config.backend].module).open_backend(config, purse)
    return backend
