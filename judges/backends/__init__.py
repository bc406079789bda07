"""Ways to reach a model, a file each, and the one table of them.

``openai_http`` any OpenAI-compatible server, ``lm_eval_model`` any model of lm_eval, ``classifier`` a model made to verify,
``cascade`` one judge after another, ``lexical`` no model at all. The other modules are parts of the first. A new backend is a
class that is made of ``(config, purse)``, and its entry in ``BACKENDS``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judges.answers import Backend
    from judges.backends.limits import Purse
    from judges.config import JudgeConfig

WORD_OVERLAP = (
    "Judged by word overlap, not by a model: on 434 held-out biographies it gives FActScore 86.7 and D-FActScore 79.2 where the "
    "released judge gives 94.6 and 89.0."
)


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do, known before it is opened. The defaults are those of a language model behind HTTP.

    ``reads_prompts``: a model reads the prompt; otherwise the subject of a request decides, and only subjects of these ``kinds``
    get an answer (None: any). ``needs_evidence``: a claim without passages gets no verdict. ``is_reproducible``: the same version
    of the suite gives the same answers anywhere, if no options are set but ``portable_options``. ``takes_schema``: answers can
    have a JSON schema. ``runs_here``: the model is in this process. ``by_words``: only content words are seen."""

    reads_prompts: bool = True
    kinds: tuple[str, ...] | None = None
    needs_evidence: bool = False
    is_reproducible: bool = False
    takes_schema: bool = False
    portable_options: tuple[str, ...] = ()
    runs_here: bool = False
    by_words: bool = False

    @property
    def caution(self) -> str:
        """What to say beside whatever it judges; empty where there is nothing to warn of."""
        return WORD_OVERLAP if self.by_words else ""

    def can_answer(self, kind: str) -> bool:
        """Whether requests about subjects of this ``kind`` (``verify``, ``segments``, ...) can get an answer."""
        return self.kinds is None or kind in self.kinds


@dataclass(frozen=True)
class Entry:
    """The class of a backend, the keys of its YAML beside those that all have, what its ``model`` names, and what it can do."""

    backend: str
    keys: tuple[str, ...]
    model_is: str = ""
    capabilities: Capabilities = Capabilities()


_SERVER = (
    *("model", "base_url", "api_key_env", "endpoint", "max_tokens_name", "schema", "tokenizer", "extra_body", "verdicts"),
    *("verify", "prices", "thinking_tokens"),
)
_LIMITS = ("concurrency", "timeout", "total_timeout", "max_retries", "requests_per_minute", "tokens_per_minute", "max_cost")
_BY_EVIDENCE = ("verify", "segments", "claims", "marks")  # kinds of subjects that have passages

BACKENDS: Mapping[str, Entry] = {
    "openai": Entry(
        "judges.backends.openai_http:OpenAIBackend",
        (*_SERVER, *_LIMITS),
        model_is="the name by which the server knows it",
        capabilities=Capabilities(takes_schema=True),
    ),
    "lm_eval": Entry(
        "judges.backends.lm_eval_model:LmEvalBackend",
        ("model", "model_args", "apply_chat_template", "verdicts", "verify", "thinking_tokens"),
        model_is="the name of a model class (hf, vllm, ...)",
        capabilities=Capabilities(runs_here=True),
    ),
    "classifier": Entry(
        "judges.backends.classifier:ClassifierBackend",
        ("model", "family", "revision", "window", "threshold", "batch_size", "device"),
        model_is="a model on the Hub, or its folder",
        capabilities=Capabilities(reads_prompts=False, kinds=_BY_EVIDENCE, needs_evidence=True, runs_here=True),
    ),
    "cascade": Entry("judges.backends.cascade:CascadeBackend", ("first", "then", "unsure", "error")),
    "lexical": Entry(
        "judges.backends.lexical:LexicalBackend",
        ("options",),
        capabilities=Capabilities(
            reads_prompts=False,
            kinds=(*_BY_EVIDENCE, "decompose", "group"),
            needs_evidence=True,
            is_reproducible=True,
            portable_options=("threshold",),
            runs_here=True,
            by_words=True,
        ),
    ),
}


def capabilities(backend: str) -> Capabilities:
    """What the backend of this name can do; of a name from elsewhere that is in no table, what a language model can."""
    return BACKENDS[backend].capabilities if backend in BACKENDS else Capabilities()


def open_backend(config: JudgeConfig, purse: Purse | None = None) -> Backend:
    """The way to reach the model of ``config``; ``purse`` is the money that it shares with others."""
    backend: Backend = resolve_name(BACKENDS[config.backend].backend)(config, purse)
    return backend
