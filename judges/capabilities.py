"""The capabilities of each backend, i.e. of each way to reach a judge's model.

`judges.config`, the backends and the benchmarks look them up in the table ``backends.yaml``.
"""

from dataclasses import dataclass
from typing import Any

from lm_factuality.ground.packages import load_yaml


@dataclass(frozen=True)
class Capabilities:
    """The abilities of a backend, which are known before it is opened.

    The defaults are those of a language model behind a server.
    """

    reads_prompts: bool = True
    """Whether a model reads the prompt. Otherwise the request's subject alone is read."""

    kinds: tuple[str, ...] | None = None
    """The kinds of subjects (``verify``, ``segments``) that it can judge. None means all."""

    needs_evidence: bool = False
    """Whether a claim without passages gets no verdict."""

    accepts_schema: bool = False
    """Whether a request may contain the JSON schema that the answer has to follow."""

    tells_contradictions: bool = True
    """Whether it tells a contradicted claim from one that the passages do not mention."""

    matches_words: bool = False
    """Whether it only compares words, so that texts with the same words look the same to it."""

    caution: str = ""
    """A warning that is printed with its scores. Empty if there is none."""

    def can_answer(self, kind: str) -> bool:
        """Return whether requests about a kind of subject, such as ``verify``, get an answer."""
        return self.kinds is None or kind in self.kinds


@dataclass(frozen=True)
class BackendEntry:
    """The entry of a backend in the table ``backends.yaml``."""

    backend: str
    """The class, such as ``judges.backends.lexical:LexicalBackend``."""

    keys: tuple[str, ...]
    """The keys that the YAML of its judges may have in addition to those of every judge."""

    model_description: str = ""
    """What its key ``model`` has to name. Empty if it has no such key."""

    capabilities: Capabilities = Capabilities()
    """Its abilities."""


def _backend_entry(
    backend: str,
    keys: list[str],
    model_description: str = "",
    capabilities: dict[str, Any] | None = None,
) -> BackendEntry:
    """Make the entry of a backend of the fields that it has in ``backends.yaml``."""
    fields = dict(capabilities or {})
    # YAML has lists in the place of tuples.
    if "kinds" in fields:
        fields["kinds"] = tuple(fields["kinds"])
    return BackendEntry(backend, tuple(keys), model_description, Capabilities(**fields))


# A validator of pydantic would check the table at every start, and takes longer than all the rest.
BACKENDS = {
    name: _backend_entry(**entry) for name, entry in load_yaml(__package__, "backends.yaml").items()
}


def capabilities_of(backend: str) -> Capabilities:
    """Return the capabilities of a backend, by its name in ``backends.yaml``.

    An unknown name gets the capabilities of a language model.
    """
    # Results of other versions may name backends that this version lacks.
    if backend not in BACKENDS:
        return Capabilities()
    return BACKENDS[backend].capabilities
