"""What each way to reach a model can do, and the one table of them, ``backends.yaml``."""

from dataclasses import dataclass

from pydantic import TypeAdapter

from lm_factuality.ground.packages import load_yaml


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do, known before it is opened.

    The defaults are those of a language model behind HTTP.
    """

    reads_prompts: bool = True
    """Whether a model reads the prompt. Otherwise the subject of a request decides."""

    kinds: tuple[str, ...] | None = None
    """The kinds of subjects that get an answer. None: any."""

    needs_evidence: bool = False
    """Whether a claim without passages gets no verdict."""

    takes_schema: bool = False
    """Whether answers can have a JSON schema."""

    matches_words: bool = False
    """Whether it sees content words."""

    caution: str = ""
    """What goes with its scores."""

    def can_answer(self, kind: str) -> bool:
        """Whether requests about subjects of a kind (``verify``, ``segments``) get an answer."""
        return self.kinds is None or kind in self.kinds


@dataclass(frozen=True)
class BackendEntry:
    """A backend in the table."""

    backend: str
    """Its class."""

    keys: tuple[str, ...]
    """The keys of its YAML beside those that all have."""

    model_is: str = ""
    """What its ``model`` names."""

    capabilities: Capabilities = Capabilities()


BACKENDS = TypeAdapter(dict[str, BackendEntry]).validate_python(
    load_yaml(__package__, "backends.yaml")
)


def capabilities_of(backend: str) -> Capabilities:
    """What the backend of this name can do; of an unknown name, what a language model can."""
    return BACKENDS[backend].capabilities if backend in BACKENDS else Capabilities()
