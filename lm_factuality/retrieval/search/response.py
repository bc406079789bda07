"""The results in the JSON that a search service answers with, found by paths.

`lm_factuality.retrieval.search.config` reads the paths.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, model_validator

from lm_factuality.ground.errors import listed, short
from lm_factuality.ground.files import Json
from lm_factuality.ground.settings import Strict

_NAME = r"[^.\[\]\s]+"
_NAMES = rf"{_NAME}(?:\.{_NAME})*"


@dataclass(frozen=True)
class FoundPage:
    """A result as the service describes it."""

    url: str
    """The address of the page."""

    title: str
    """The title. Empty if the service gives none."""

    snippet: str
    """The text that the service shows of the page. It may be empty."""


ResultPath = Annotated[
    str,
    Field(
        pattern=rf"^(?:{_NAMES})?\[\]\.{_NAMES}$",
        description="a path with one [] for the list of results, such as results[].url",
    ),
]
PlainPath = Annotated[
    str,
    Field(
        pattern=f"^{_NAMES}$",
        description="a path of names with dots between them, such as error.message",
    ),
]


class ResponseForm(Strict):
    """Where the results stand in an answer: the section ``response`` of a service's YAML."""

    url: ResultPath
    """The path to the address of each result, such as ``results[].url``."""

    text: ResultPath
    """The path to the text that the service shows of each result, such as ``results[].content``."""

    title: ResultPath | None = None
    """The path to the title of each result. None if the service has no titles."""

    problem: PlainPath | None = None
    """The path to what went wrong in the service. It counts if there are no results."""

    @model_validator(mode="after")
    def _check_lists(self) -> "ResponseForm":
        """Check that all paths of results lead through the same list.

        Raises:
            ValueError: The paths lead through several lists.
        """
        paths = [path for path in (self.url, self.text, self.title) if path]
        lists = dict.fromkeys(path.partition("[]")[0] + "[]" for path in paths)
        if len(lists) > 1:
            raise ValueError(
                f"has paths through the lists {' and '.join(lists)}; all results stand in one list"
            )
        return self

    def read(self, content: Json) -> list[FoundPage]:
        """Read the results of an answer.

        Example:
            With the paths ``items[].link`` and ``items[].text``, ``{"items": [{"link":
            "https://a.example", "text": "Ada rowed."}]}`` holds one result.

        Returns:
            The results in the order of the answer. There may be none.

        Raises:
            ValueError: The JSON has another form, or the service says that it failed.
        """
        list_path, _ = self.url.split("[].")
        results = _value_at(content, list_path)
        if not isinstance(results, list):
            raise ValueError(  # noqa: TRY004  the caller reports one kind of error
                f"an answer without the list {list_path}[] (found {_describe(content)}); see"
                " the paths of response in the YAML of the service"
            )
        pages = [self._read_result(result) for result in results]
        if pages and not any(page.url for page in pages):
            # The path is probably wrong.
            raise ValueError(
                f"results without {self.url} (found {_describe(results[0])}); see the paths of"
                " response in the YAML of the service"
            )

        # A service whose sources all failed also answers with an empty list.
        if not pages and self.problem:
            problem = _value_at(content, self.problem)
            if problem:
                raise ValueError(f"no results, and the service says {short(problem, 200)}")
        return pages

    def _read_result(self, result: Json) -> FoundPage:
        """Read one result. What is missing in it is an empty text."""
        return FoundPage(
            url=_text_at(result, self.url),
            title=_text_at(result, self.title) if self.title else "",
            snippet=_text_at(result, self.text),
        )


def _text_at(result: Json, path: str) -> str:
    """Return the text in one result at a `ResultPath`, on one line. Empty if there is none."""
    # The path "items[].link" leads through the list "items" to "link" in each of its results.
    _, path_in_result = path.split("[].")
    value = _value_at(result, path_in_result)
    if not isinstance(value, str | int | float):
        return ""
    return " ".join(str(value).split())


def _value_at(content: Json, path: str) -> Json:
    """Return the value at a path such as ``web.results``, or None.

    An empty path leads to the whole content.
    """
    if not path:
        return content
    for name in path.split("."):
        if not isinstance(content, dict):
            return None
        content = content.get(name)
    return content


def _describe(content: Json) -> str:
    """Name the keys of an object, or the type of another value, for an error."""
    if not isinstance(content, dict):
        return f"a {type(content).__name__}"
    keys = [short(key, 40) for key in content]
    return f"the keys {listed(keys, 8)}" if keys else "an empty object"
