"""The configuration of a judge, i.e. the settings in its YAML file.

`load_judge_config` reads a file. The harness, the command line and the backends use the result.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic.dataclasses
from pydantic import (
    AfterValidator,
    Field,
    ModelWrapValidatorHandler,
    Strict,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import ArgsKwargs

from judges.answers import Decoding, Prices
from judges.capabilities import BACKENDS, Capabilities, capabilities_of
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.http import is_web_address, may_hold_secret
from lm_factuality.ground.secrets import check_variable_name
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

CONFIG_FOLDER = Path("configs/judges")

# The keys that the YAML of every backend may have.
_COMMON_KEYS = ("backend", "decoding", "samples", "prompts", "system")

# Keys of a request that can raise its tokens above `decoding.max_tokens`.
_KEYS_THAT_ADD_TOKENS = ("n", "best_of", "max_tokens", "max_completion_tokens")


def _check_backend(backend: str) -> str:
    """Return the name of a backend if it is in ``backends.yaml``; raise a ValueError otherwise."""
    if backend not in BACKENDS:
        raise ValueError(f"expected one of {', '.join(BACKENDS)}{did_you_mean(backend, BACKENDS)}")
    return backend


def _check_base_url(base_url: str) -> str:
    """Return the address of a server unchanged, after a check that it holds no secret.

    Raises:
        ValueError: The address is not one of the web, or contains a user, a password, a query or a
            fragment. The message leaves the address out, since it may hold a password.
    """
    if not is_web_address(base_url):
        raise ValueError("is not an address; expected something like http://localhost:8000/v1")
    # Results contain the address, and servers write it to logs, so it must not hold a secret.
    if may_hold_secret(base_url):
        raise ValueError(
            "must hold no user, password or ?query (keys included); keys come from the environment"
            " only: name the variable by api_key_env"
        )
    return base_url


String = Annotated[str, Strict()]
PositiveNumber = Annotated[Number, Field(gt=0)]
Count = Annotated[Integer, Field(ge=1)]
BaseUrl = Annotated[String, AfterValidator(_check_base_url)]
Probability = Annotated[Number, Field(ge=0, le=1)]
ProbabilityBand = Annotated[
    tuple[Probability, Probability], Field(description="two probabilities, such as [0.2, 0.8]")
]

# The tokens of a context for which the benchmarks state the sizes of questions and replies.
DEFAULT_CONTEXT = 8192

# A cascade takes these settings from its second judge, so its own YAML may not have them.
_SETTINGS_OF_SECOND_JUDGE = frozenset(
    {
        "decoding",
        "samples",
        "prompts",
        "system",
        "schema",
        "thinking_tokens",
        "context",
        "prices",
        "max_cost",
    }
)


@dataclass(frozen=True)
class ModelSettings:
    """Which model decides, and which backend reaches it."""

    name: String
    """The name of the judge, which is that of its file without ``.yaml``."""

    backend: Annotated[String, AfterValidator(_check_backend)]
    """How the model is reached: a key of ``backends.yaml``."""

    model: String = ""
    """openai: the model's name on the server. lm_eval: the name of the model class (hf, ...)."""

    context: Annotated[Integer, Field(ge=1024)] = DEFAULT_CONTEXT
    """The tokens of the model's context, into which a question fits together with its reply."""


@dataclass(frozen=True)
class ServerSettings:
    """The server of an ``openai`` judge."""

    base_url: BaseUrl = "https://api.openai.com/v1"
    """The address of the API, to which the path of the endpoint is added."""

    api_key_env: Annotated[String, AfterValidator(check_variable_name)] | None = None
    """The environment variable that holds the API key; see `judges.backends.server`."""

    endpoint: Literal["chat", "completions"] = "chat"
    """Whether prompts are sent as chat messages or as plain text."""

    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The server's name for the limit on the tokens of an answer."""

    schema: Truth = True
    """Whether the server is sent the JSON schema that answers have to follow."""


@dataclass(frozen=True)
class RequestLimits:
    """How much an ``openai`` judge may send at once, per minute and per run."""

    concurrency: Count = 16
    """The number of requests that may be under way at once."""

    timeout: PositiveNumber = 120.0
    """Seconds until one try of a request is given up."""

    total_timeout: PositiveNumber | None = None
    """Seconds for all requests of one step. None means no limit."""

    max_retries: Annotated[Integer, Field(ge=0)] = 6
    """How often a request is tried again after its first try failed."""

    requests_per_minute: PositiveNumber | None = None
    """The rate limit in requests. None means no limit."""

    tokens_per_minute: PositiveNumber | None = None
    """The rate limit in tokens of prompts and answers. None means no limit."""

    prices: Prices | None = None
    """The prices of tokens. None if the cost is not of interest."""

    max_cost: PositiveNumber | None = None
    """The most that a run may cost, in USD. None means no limit."""

    tokenizer: String | None = None
    """The tokenizer of transformers that counts tokens before they are sent.

    None estimates the number of tokens from the length of the text.
    """


@dataclass(frozen=True)
class ModelArguments:
    """Arguments that a server or a model class is passed unchanged."""

    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """openai: fields that are added to every request. A null removes a field."""

    model_args: Mapping[str, Any] = field(default_factory=dict)
    """lm_eval: the arguments of the model class."""

    apply_chat_template: Truth = False
    """lm_eval: whether the prompt is put into the chat template of the model."""


@dataclass(frozen=True)
class ClassifierSettings:
    """How a ``classifier`` is loaded and asked."""

    family: String | None = None
    """The format of its input (`judges.inference`). None recognises it by the model's name."""

    revision: String | None = None
    """The commit on the Hub to load. None loads the newest."""

    window: Annotated[Integer, Field(ge=16)] | None = None
    """The tokens of passages that it reads at a time. None takes the default of its family."""

    threshold: Annotated[Number, Field(ge=0.1, le=0.9)] = 0.5
    """The lowest probability of support at which a claim counts as supported."""

    batch_size: Count = 16
    """The number of windows that are scored at once."""

    device: String | None = None
    """``cuda`` or ``cpu``. None takes the GPU if there is one."""


@dataclass(frozen=True)
class CascadeSettings:
    """The two judges of a ``cascade``."""

    first: "JudgeConfig | None" = None
    """The judge that is asked about every claim and gives probabilities."""

    second: "JudgeConfig | None" = None
    """The second judge, which is asked if the first is unsure."""

    unsure_between: ProbabilityBand | None = None
    """The first judge is unsure from the first probability (included) to the second (excluded)."""


# A dataclass lists the fields of its last base first. Results therefore list the keys of a judge
# in the order in which the classes stand above.
# Pydantic checks the whole.
@pydantic.dataclasses.dataclass(frozen=True, config=FORBID)
class JudgeConfig(
    CascadeSettings,
    ClassifierSettings,
    ModelArguments,
    RequestLimits,
    ServerSettings,
    ModelSettings,
):
    """All settings of a judge, as `load_judge_config` reads them from its YAML.

    Which backend reads which key is stated in ``backends.yaml``.

    Raises:
        ConfigError: A value cannot be used, or two values contradict each other.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    """lexical: the options of `judges.backends.lexical`."""

    decoding: Decoding = field(default_factory=Decoding)
    """How the model generates its answers."""

    thinking_tokens: Annotated[Integer, Field(ge=0)] | None = None
    """Tokens for thinking, in addition to ``decoding.max_tokens``.

    None gives 4,096 tokens to a request whose answer was cut off in a thought.
    """

    samples: Count = 1
    """The number of answers to each prompt."""

    prompts: Mapping[str, Path] = field(default_factory=dict)
    """The user's own templates, by the name of the prompt that each replaces."""

    system: String = ""
    """The system message."""

    verdicts: Literal["text", "logprobs"] = "text"
    """Whether a verdict is read from the text, or from the logprobs of True and False."""

    verify: Literal["fact", "page"] = "fact"
    """Whether a question is about one fact, as in the paper, or all facts and one page."""

    @model_validator(mode="wrap")
    @classmethod
    def _explain_wrong_arguments(
        cls, settings: object, make_config: ModelWrapValidatorHandler["JudgeConfig"]
    ) -> "JudgeConfig":
        """Turn pydantic's error about wrong arguments of ``JudgeConfig(...)`` into a ConfigError.

        Pydantic calls this whenever it makes a config.

        Example:
            ``judge mine: samples is 0; expected greater than or equal to 1``

        Args:
            settings: The arguments, as an ``ArgsKwargs``. A mapping if they come from a YAML file.
            make_config: Pydantic's own validation, which makes a config of the settings.

        Raises:
            ConfigError: Arguments in Python are wrong. Each problem has a line of its own.
            ValidationError: Values of a file are wrong. `read_settings` makes a ConfigError of it,
                which names the file.
        """
        try:
            return make_config(settings)
        except ValidationError as error:
            if not isinstance(settings, ArgsKwargs):
                raise
            # The name is the first argument, as in JudgeConfig("mine", ...), or a keyword.
            keyword_arguments = settings.kwargs or {}
            name = settings.args[0] if settings.args else keyword_arguments.get("name")
            lines = [f"judge {name}: {problem}" for problem in problems_of(cls, error)]
            raise ConfigError("\n".join(lines)) from error

    def __post_init__(self) -> None:
        """Raise a ValueError with all problems if settings contradict each other."""
        problems = [
            *self._model_problems(),
            *self._logprobs_problems(),
            *self._cascade_problems(),
            *self._cost_problems(),
        ]
        if problems:
            # Pydantic turns a ValueError into a ValidationError, to which the file is added.
            raise ValueError("; ".join(problems))

    def _model_problems(self) -> Iterator[str]:
        """Yield a sentence for each setting that the backend or its model cannot use."""
        # Some backends, such as the lexical judge, have no model to name.
        model_description = BACKENDS[self.backend].model_description
        if model_description and not self.model:
            yield f"model is missing: {model_description}"
        # A backend that reads no prompts gives the same answer each time.
        if self.samples > 1 and not self.capabilities.reads_prompts:
            yield f"samples of backend {self.backend} would all be the same; take them out"

    def _logprobs_problems(self) -> Iterator[str]:
        """Yield a sentence for each setting that keeps verdicts from being read by probability.

        With ``verdicts: logprobs``, a judge answers True or False, and the probabilities of these
        two as the first token of its answer are the verdict.
        """
        # A question that needs the log-probabilities sets this number itself.
        if self.decoding.top_logprobs:
            yield "decoding.top_logprobs is not for a config: say verdicts: logprobs"
        if self.verdicts != "logprobs":
            return
        if self.thinking_tokens:
            yield (
                "verdicts: logprobs reads the first token of an answer, which belongs to a thought"
                " if there are thinking_tokens; take one of the two out"
            )
        # An answer about a page has many verdicts, and other backends return no logprobs.
        if self.verify == "page" or self.backend != "openai":
            yield "verdicts: logprobs reads one word of one fact; it needs openai and verify: fact"

    def _cascade_problems(self) -> Iterator[str]:
        """Yield a sentence for each setting with which a cascade cannot work.

        A cascade asks its first judge about every claim. It asks its second judge only where the
        first one's probability of support lies between the two numbers ``unsure_between``.
        """
        if self.backend != "cascade":
            return
        if self.first is None or self.second is None or self.unsure_between is None:
            yield (
                "a cascade needs first: JUDGE.yaml, second: JUDGE.yaml, and"
                " unsure_between: [0.2, 0.8]"
            )
            return

        if "cascade" in (self.first.backend, self.second.backend):
            yield "a cascade cannot be part of another cascade"
        elif self.first.capabilities.reads_prompts:
            # Judges that read prompts are language models, which state no reliable probability.
            yield "a cascade needs probabilities: name a classifier or lexical as first"
        # The second judge is asked about single facts, and its verdict is read from its text.
        if self.second.verdicts != "text" or self.second.verify != "fact":
            yield "a cascade decides on a fact by its text; remove verdicts and verify from second"

        lowest, highest = self.unsure_between
        if lowest > highest:
            band = list(self.unsure_between)
            yield f"unsure_between: expected the lower probability first, found {band}"

    def _cost_problems(self) -> Iterator[str]:
        """Yield a sentence for each setting with which a run could cost more than ``max_cost``."""
        if self.max_cost is None:
            return
        # Without prices no call has a cost, so the limit would never be reached.
        if self.prices is None:
            yield "max_cost needs prices: {prompt: USD, completion: USD} for a million tokens"

        token_adding_keys = [key for key in self.extra_body if key in _KEYS_THAT_ADD_TOKENS]
        if token_adding_keys:
            yield (
                f"max_cost could be exceeded: extra_body holds {', '.join(token_adding_keys)}; take"
                " it out, or max_cost"
            )

    @property
    def capabilities(self) -> Capabilities:
        """What the judge can answer, what it is sent, and what users should know of its scores.

        A cascade can do what its second judge can, since that one is asked the whole question
        wherever the first is unsure.
        """
        # Only a cascade has two judges.
        if self.first is None or self.second is None:
            return capabilities_of(self.backend)
        first = self.first.capabilities
        second = self.second.capabilities
        # Some verdicts are those of the first judge, so its weaknesses are the cascade's too.
        return replace(
            second,
            tells_contradictions=first.tells_contradictions and second.tells_contradictions,
            matches_words=first.matches_words or second.matches_words,
            caution=second.caution or first.caution,
        )

    def fit_context(self, size: int) -> int:
        """Scale a number of words, facts or tokens that fits into the default context."""
        return size * self.context // DEFAULT_CONTEXT

    def describe(self, prompt_names: Iterable[str] = ()) -> dict[str, Any]:
        """Describe the judge for a results file.

        Args:
            prompt_names: The prompts whose hashes are included.

        Returns:
            The settings that the backend reads, as JSON values by their keys in the YAML, and
            under ``prompt_hashes`` the hashes by prompt.
        """
        # Templates are needed here only, and importing them takes time.
        from judges.templates import Prompts

        # Pydantic takes the fields to describe as the keys of a mapping.
        fields: dict[str, Any] = dict.fromkeys({"name", *allowed_keys(self.backend)}, True)
        del fields["prompts"]
        # `Decoding.to_dict` leaves out fields that are not in use.
        fields["decoding"] = set(self.decoding.to_dict())
        description: dict[str, Any] = TypeAdapter(JudgeConfig).dump_python(
            self, mode="json", include=fields
        )
        # Pydantic has dumped the judges of a cascade with all their settings. Only those that
        # their backends read are of interest.
        if self.first is not None:
            description["first"] = self.first.describe()
        if self.second is not None:
            description["second"] = self.second.describe()
        # A path on the user's machine says nothing to readers of results.
        description["prompts"] = {name: path.name for name, path in self.prompts.items()}
        description["prompt_hashes"] = Prompts(self.prompts).hashes(prompt_names)
        return description


def allowed_keys(backend: str) -> frozenset[str]:
    """Return the keys that the YAML of a judge may have, by the name of its backend.

    An unknown backend has none.
    """
    if backend not in BACKENDS:
        return frozenset()
    return frozenset((*_COMMON_KEYS, *BACKENDS[backend].keys))


def load_judge_config(path_or_name: str | Path) -> JudgeConfig:
    """Read the settings of a judge from a YAML file.

    Args:
        path_or_name: The file, or a bare name: ``lexical`` means ``configs/judges/lexical.yaml``.

    Returns:
        The settings, checked.

    Raises:
        ConfigError: There is no such file, it holds a credential, or values cannot be used. Each
            problem has a line of its own.
    """
    path = _find_file(Path(path_or_name))
    content = read_config(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected a mapping of names to values, such as backend: openai")

    backend = str(content.get("backend"))
    # If the backend is unknown, no key is checked, so that only the backend is reported.
    keys = allowed_keys(backend) or frozenset(content)
    if backend == "cascade":
        keys -= _SETTINGS_OF_SECOND_JUDGE
    problems = []
    values: dict[str, object] = {"name": path.stem}
    for key, value in content.items():
        if key in keys:
            values[key] = _resolve_files(path.parent, key, value)
        else:
            problem = unknown_key(str(key), sorted(keys))
            problems.append(f"{path}: backend {backend}: {problem}")

    # Wrong values are reported together with the unknown keys.
    try:
        config = _make_config(values, str(path))
    except ConfigError as error:
        problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(problems))
    return config


def config_from_description(description: Mapping[str, object], where: str) -> JudgeConfig:
    """Return the settings of a judge from their description in a results file, without its prompts.

    Args:
        description: What `JudgeConfig.describe` returned. It may be a stranger's, so it is checked.
        where: The place of the description, for errors, such as ``certificate.json: judge``.

    Raises:
        ConfigError: The description is not one of a judge.
    """
    # A description names files with prompts, but not where they are.
    values = {key: description[key] for key in description.keys() - {"prompts", "prompt_hashes"}}
    # A cascade holds the descriptions of its two judges.
    for key in ("first", "second"):
        judge_description = values.get(key)
        if isinstance(judge_description, dict):
            values[key] = config_from_description(judge_description, f"{where}.{key}")
    return _make_config(values, where)


def _make_config(values: Mapping[str, object], where: str) -> JudgeConfig:
    """Make and check the settings of a judge.

    A cascade takes the settings that its own YAML may not have from its second judge.

    Args:
        values: The values by their keys in the YAML.
        where: The file or the place of the values, for errors.

    Raises:
        ConfigError: Values cannot be used.
    """
    second_judge = values.get("second")
    shared_settings: dict[str, object] = {}
    if isinstance(second_judge, JudgeConfig):
        shared_settings = {key: getattr(second_judge, key) for key in _SETTINGS_OF_SECOND_JUDGE}
    return read_settings(JudgeConfig, {**values, **shared_settings}, where)


def _resolve_files(folder: Path, key: str, value: object) -> object:
    """Turn the names of files in a judge's YAML into whole paths, or into the judges they hold.

    Example:
        In the YAML ``judges/mine.yaml``, ``first: lexical.yaml`` becomes the `JudgeConfig` of that
        file, and ``prompts: {verify: mine.jinja}`` becomes ``{"verify": "judges/mine.jinja"}``.

    Args:
        folder: The folder of the YAML, to which the names of files are relative.
        key: The key, such as ``first``.
        value: Its value in the YAML, such as ``lexical.yaml``.

    Returns:
        The config of the judge for ``first`` and ``second``, whole paths for the files in
        ``prompts`` and ``options``, and the unchanged value for all other keys.
    """
    if key in ("first", "second") and isinstance(value, str):
        # A file in the same folder is preferred to a judge of the suite that has this name.
        neighbour = folder / value
        return load_judge_config(neighbour if neighbour.is_file() else value)
    if key in ("prompts", "options") and isinstance(value, dict):
        # Every text among these is the name of a file; numbers, such as a threshold, stay.
        return {
            name: str(folder / option) if isinstance(option, str) else option
            for name, option in value.items()
        }
    return value


def _find_file(path: Path) -> Path:
    """Return the YAML file of a judge, given its path or a bare name such as ``lexical``.

    Raises:
        ConfigError: There is no such file.
    """
    has_yaml_suffix = path.suffix in (".yaml", ".yml")
    is_bare_name = not has_yaml_suffix and len(path.parts) == 1 and not path.is_file()
    # A bare name is looked up among the judges that come with the suite.
    config_path = CONFIG_FOLDER / f"{path}.yaml" if is_bare_name else path
    file = find_config(config_path)
    if file.is_file():
        return file

    names = sorted(judge_file.stem for judge_file in find_config(CONFIG_FOLDER).glob("*.yaml"))
    raise ConfigError(
        f"no judge is called {str(path)!r}{did_you_mean(path.name, names)}; expected a YAML file,"
        f" or one of {', '.join(names)}"
    )
