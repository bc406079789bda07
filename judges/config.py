"""A judge as a YAML file: which model answers, how it is asked and within which limits."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, Strict, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs

from judges.answers import Decoding, Prices
from judges.capabilities import BACKENDS, Capabilities, capabilities_of
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.secrets import secrets_in_text
from lm_factuality.ground.settings import (
    FORBID,
    Integer,
    Number,
    Truth,
    problems_of,
    read_settings,
    unknown_key,
)
from lm_factuality.ground.suite import find_config, read_config

FOLDER = Path("configs/judges")
_COMMON = ("backend", "decoding", "samples", "prompts", "system")
_MORE_TOKENS = (
    "n",
    "best_of",
    "max_tokens",
    "max_completion_tokens",
)  # would cost more than is set aside


def _is_known(backend: str) -> str:
    if backend not in BACKENDS:
        raise ValueError(f"expected one of {', '.join(BACKENDS)}{did_you_mean(backend, BACKENDS)}")
    return backend


def _is_variable(name: str) -> str:
    # The value is not shown, for it may be the key.
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or secrets_in_text(name):
        raise ValueError("must be the name of an environment variable, not the key itself")
    return name


def _is_address(base_url: str) -> str:
    # The value is not shown, for it may hold a password.
    try:
        url = urlsplit(base_url)
        is_web = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_web = False
    if not is_web:
        raise ValueError("is not an address; expected something like http://localhost:8000/v1")
    if url.username is not None or url.password is not None or url.query or url.fragment:
        raise ValueError(
            "must hold no user, password or ?query (keys included); keys come from the environment"
            " only: name the variable by api_key_env"
        )
    return base_url


String = Annotated[str, Strict()]
Positive = Annotated[Number, Field(gt=0)]
Count = Annotated[Integer, Field(ge=1)]
Address = Annotated[String, AfterValidator(_is_address)]
Share = Annotated[Number, Field(ge=0, le=1)]
Band = Annotated[tuple[Share, Share], Field(description="two probabilities, such as [0.2, 0.8]")]
# A cascade has these from its second judge.
_OF_SECOND = frozenset(
    {
        "decoding",
        "samples",
        "prompts",
        "system",
        "schema",
        "thinking_tokens",
        "prices",
        "max_cost",
    }
)


@dataclass(frozen=True, config=FORBID)
class ModelSettings:
    """Which model decides, and what answers for it."""

    name: String
    """The name of the judge's file."""

    backend: Annotated[String, AfterValidator(_is_known)]
    """How the model is reached: a key of ``backends.yaml``."""

    model: String = ""
    """openai: as the server calls it. lm_eval: the name of the model class (hf, vllm, ...)."""


@dataclass(frozen=True, config=FORBID)
class ServerSettings:
    """The server of an ``openai`` judge."""

    base_url: Address = "https://api.openai.com/v1"

    api_key_env: Annotated[String, AfterValidator(_is_variable)] | None = None
    """The environment variable that holds the key; see `judges.backends.server`."""

    endpoint: Literal["chat", "completions"] = "chat"

    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the server calls the limit of an answer."""

    schema: Truth = True
    """Whether the server is sent the JSON schema that answers are held to."""


@dataclass(frozen=True, config=FORBID)
class RequestLimits:
    """How much an ``openai`` judge may send at once, in a minute and in a run."""

    concurrency: Count = 16
    """Requests under way at once."""

    timeout: Positive = 120.0
    """Seconds for one try."""

    total_timeout: Positive | None = None
    """Seconds for all requests of one step."""

    max_retries: Annotated[Integer, Field(ge=0)] = 6
    """Tries of a request after the first."""

    requests_per_minute: Positive | None = None
    tokens_per_minute: Positive | None = None
    prices: Prices | None = None

    max_cost: Positive | None = None
    """USD a run."""

    tokenizer: String | None = None
    """The tokenizer of transformers that counts tokens beforehand."""


@dataclass(frozen=True, config=FORBID)
class ModelArguments:
    """What a server or a model class is passed as it stands."""

    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """openai: what is sent with every request. A null takes a field away."""

    model_args: Mapping[str, Any] = field(default_factory=dict)
    """lm_eval: arguments of the model."""

    apply_chat_template: Truth = False
    """lm_eval: whether the prompt goes through the chat template of the model."""


@dataclass(frozen=True, config=FORBID)
class ClassifierSettings:
    """How a ``classifier`` is loaded and asked."""

    family: String | None = None
    """How it is asked (`judges.inference`), if not as what it is recognised as."""

    revision: String | None = None
    """A commit of the Hub."""

    window: Annotated[Integer, Field(ge=16)] | None = None
    """Tokens of passages at a time. None: as the family has it."""

    threshold: Annotated[Number, Field(ge=0.1, le=0.9)] = 0.5
    """The probability from which a claim is supported."""

    batch_size: Count = 16

    device: String | None = None
    """cuda or cpu. None: the GPU if there is one."""


@dataclass(frozen=True, config=FORBID)
class CascadeSettings:
    """The two judges of a ``cascade``."""

    first: "JudgeConfig | None" = None
    """The judge that is asked first, for probabilities."""

    then: "JudgeConfig | None" = None
    """The judge that is asked where the first is unsure."""

    unsure: Band | None = None
    """From which probability to below which the first judge is unsure."""


# The fields of a base come before those of the classes to its left, so results list the keys of
# a judge in the order in which the classes stand above.
@dataclass(frozen=True, config=FORBID)
class JudgeConfig(
    CascadeSettings,
    ClassifierSettings,
    ModelArguments,
    RequestLimits,
    ServerSettings,
    ModelSettings,
):
    """What a judge's YAML says. `load_judge_config` reads one.

    Which backend reads which key is in ``backends.yaml``.

    Raises:
        ConfigError: Values cannot be used.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    """lexical: see its backend."""

    decoding: Decoding = field(default_factory=Decoding)

    thinking_tokens: Annotated[Integer, Field(ge=0)] | None = None
    """Tokens to think, beside max_tokens. None: 4,096 where it runs short."""

    samples: Count = 1
    """Answers to each prompt."""

    prompts: Mapping[str, Path] = field(default_factory=dict)
    """Own templates by the name of the prompt."""

    system: String = ""
    """The system message."""

    verdicts: Literal["text", "logprobs"] = "text"
    """Whether a fact is true: as the text says, or by the logprobs of True and False (ambigbio)."""

    verify: Literal["fact", "page"] = "fact"
    """One fact a question, as in the paper, or all facts of a response against a page at once."""

    @model_validator(mode="wrap")
    @classmethod
    def _explained(cls, values: Any, validate: Any) -> Any:
        """Refuse an object made in Python, or by ``dataclasses.replace``, in words of ours too."""
        try:
            return validate(values)
        except ValidationError as error:
            if not isinstance(values, ArgsKwargs):
                raise
            name = values.args[0] if values.args else (values.kwargs or {}).get("name")
            problems = problems_of(cls, error)
            lines = [f"judge {name}: {problem}" for problem in problems]
            raise ConfigError("\n".join(lines)) from error

    def __post_init__(self) -> None:
        wrong = [*self._contradictions(), *self._wrong_cascade(), *self._wrong_costs()]
        if wrong:
            # pydantic passes a ValueError on, so that the error can name the file.
            raise ValueError("; ".join(wrong))

    def _contradictions(self) -> Iterator[str]:
        model_is = BACKENDS[self.backend].model_is
        if model_is and not self.model:
            yield f"model is missing: {model_is}"
        if self.decoding.top_logprobs:
            yield "decoding.top_logprobs is not for a config: say verdicts: logprobs"
        if self.thinking_tokens and self.verdicts == "logprobs":
            yield (
                "verdicts: logprobs reads the first token of an answer, which is of a thought where"
                " there are thinking_tokens"
            )
        if self.verdicts == "logprobs" and (self.verify == "page" or self.backend != "openai"):
            yield "verdicts: logprobs reads one word of one fact; it needs openai and verify: fact"
        if self.samples > 1 and not self.capabilities.reads_prompts:
            yield f"samples of backend {self.backend} would all be the same; take them out"

    def _wrong_costs(self) -> Iterator[str]:
        if self.max_cost is None:
            return
        if self.prices is None:
            yield "max_cost needs prices: {prompt: USD, completion: USD} for a million tokens"
        loose = [key for key in self.extra_body if key in _MORE_TOKENS]
        if loose:
            yield (
                "max_cost bounds the tokens of a call by decoding.max_tokens, and extra_body holds"
                f" {', '.join(loose)}; take it out of extra_body, or max_cost out of the judge"
            )

    def _wrong_cascade(self) -> Iterator[str]:
        if self.backend != "cascade":
            return
        if self.first is None or self.then is None or self.unsure is None:
            yield "a cascade has first: JUDGE.yaml, then: JUDGE.yaml, and unsure: [0.2, 0.8]"
            return
        if "cascade" in (self.first.backend, self.then.backend):
            yield "a cascade cannot be part of another cascade"
        elif self.first.capabilities.reads_prompts:
            yield "a cascade has a classifier or lexical as first, which gives probabilities"
        if self.then.verdicts != "text" or self.then.verify != "fact":
            yield "a cascade decides on one fact by its text; take verdicts and verify out of then"
        if self.unsure[0] > self.unsure[1]:
            yield f"unsure: expected the lower probability first, found {list(self.unsure)}"

    @property
    def capabilities(self) -> Capabilities:
        """What its backend can do. A cascade can do what its second judge can."""
        if self.first is None or self.then is None:
            return capabilities_of(self.backend)
        first = self.first.capabilities
        then = self.then.capabilities
        return replace(
            then,
            matches_words=then.matches_words or first.matches_words,
            caution=then.caution or first.caution,
        )

    def describe(self, prompt_names: Iterable[str] = ()) -> dict[str, Any]:
        """The judge for a results file.

        That is what its backend reads, as JSON has it, and the hashes of the prompts named.
        """
        from judges.templates import Prompts

        keys = {"name", *known_keys(self.backend)} - {"prompts"}
        about: dict[str, Any] = TypeAdapter(JudgeConfig).dump_python(
            self, mode="json", include=keys
        )
        for role, judge in (("first", self.first), ("then", self.then)):
            if judge is not None:
                about[role] = judge.describe()
        about["decoding"] = {name: about["decoding"][name] for name in self.decoding.to_dict()}
        about["prompts"] = {name: path.name for name, path in self.prompts.items()}
        about["prompt_hashes"] = Prompts(self.prompts).hashes(prompt_names)
        return about


def known_keys(backend: str) -> frozenset[str]:
    """What the YAML of a judge with this backend may say. Empty if there is no such backend."""
    return frozenset((*_COMMON, *BACKENDS[backend].keys)) if backend in BACKENDS else frozenset()


def load_judge_config(path_or_name: str | Path) -> JudgeConfig:
    """Read the judge in a YAML file.

    A bare name, such as ``lexical``, stands for ``configs/judges/lexical.yaml``.

    Raises:
        ConfigError: There is no such file, it holds a credential, or it says what cannot be used,
            a line each.
    """
    path = _find(Path(path_or_name))
    content = read_config(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected a mapping of names to values, such as backend: openai")
    backend = str(content.get("backend"))
    keys = known_keys(backend) or frozenset(content)
    if backend == "cascade":
        keys -= _OF_SECOND
    wrong = [
        f"{path}: backend {backend}: {unknown_key(str(key), sorted(keys))}"
        for key in content
        if key not in keys
    ]
    values = {key: _value_in(path, key, value) for key, value in content.items() if key in keys}
    second = values.get("then")
    if isinstance(second, JudgeConfig):
        values |= {key: getattr(second, key) for key in _OF_SECOND}
    try:
        config = read_settings(JudgeConfig, {**values, "name": path.stem}, str(path))
    except ConfigError as error:
        wrong.append(str(error))
    if wrong:
        raise ConfigError("\n".join(wrong))
    return config


def _value_in(path: Path, key: str, value: Any) -> Any:
    """The value of a key of the YAML at ``path``, to which the files in it are relative."""
    if key in ("first", "then") and isinstance(value, str):
        neighbour = path.parent / value
        return load_judge_config(neighbour if neighbour.is_file() else value)
    if key in ("prompts", "options") and isinstance(value, dict):
        return {
            name: str(path.parent / file) if isinstance(file, str) else file
            for name, file in value.items()
        }
    return value


def _find(path: Path) -> Path:
    is_name = path.suffix not in (".yaml", ".yml") and len(path.parts) == 1 and not path.is_file()
    file = find_config(FOLDER / f"{path}.yaml" if is_name else path)
    if file.is_file():
        return file
    known = sorted(judge.stem for judge in find_config(FOLDER).glob("*.yaml"))
    raise ConfigError(
        f"no judge is called {str(path)!r}{did_you_mean(path.name, known)}; expected a YAML file,"
        f" or one of {', '.join(known)}"
    )
