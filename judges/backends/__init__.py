"""Ways to reach a model, a file each, and the one table of them, ``backends.yaml``.

``openai_http`` any OpenAI-compatible server, ``lm_eval_model`` any model of lm_eval, ``classifier``
a model made to verify, ``cascade`` one judge after another, ``lexical`` no model at all. The other
modules are parts of the first. A new backend is a class that is made of ``(config, purse)``, and
its entry in ``backends.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from lm_factuality.ground.packages import load_yaml

if TYPE_CHECKING:
    from judges.answers import Backend
    from judges.budget import Purse
    from judges.config import JudgeConfig


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do, known before it is opened. The defaults are those of a language model
    behind HTTP. ``reads_prompts``: a model reads the prompt; otherwise the subject of a request
    decides, and only subjects of these ``kinds`` get an answer (None: any). ``needs_evidence``: a
    claim without passages gets no verdict. ``is_reproducible``: the same version of the suite gives
    the same answers anywhere, if no options are set but ``portable_options``. ``takes_schema``:
    answers can have a JSON schema. ``runs_here``: in this process. ``by_words``: it sees content
    words. ``caution`` goes with its scores."""

    reads_prompts: bool = True
    kinds: tuple[str, ...] | None = None
    needs_evidence: bool = False
    is_reproducible: bool = False
    takes_schema: bool = False
    portable_options: tuple[str, ...] = ()
    runs_here: bool = False
    by_words: bool = False
    caution: str = ""

    def can_answer(self, kind: str) -> bool:
        """Whether requests about subjects of this ``kind`` (``verify``, ``segments``, ...) can get
        an answer."""
        return self.kinds is None or kind in self.kinds


@dataclass(frozen=True)
class Entry:
    """The class of a backend, the keys of its YAML beside those that all have, what its ``model``
    names, and what it can do."""

    backend: str
    keys: tuple[str, ...]
    model_is: str = ""
    capabilities: Capabilities = Capabilities()


BACKENDS = TypeAdapter(dict[str, Entry]).validate_python(load_yaml(__package__, "backends.yaml"))


def capabilities(backend: str) -> Capabilities:
    """What the backend of this name can do; of a name from elsewhere that is in no table, what a
    language model can."""
    return BACKENDS[backend].capabilities if backend in BACKENDS else Capabilities()


def open_backend(config: JudgeConfig, purse: Purse | None = None) -> Backend:
    """The way to reach the model of ``config``; ``purse`` is the money that it shares with
    others."""
    backend: Backend = resolve_name(BACKENDS[config.backend].backend)(config, purse)
    return backend
