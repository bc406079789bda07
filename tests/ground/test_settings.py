"""What is wrong with settings is told all at once, in the terms of the file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, model_validator
from pydantic.dataclasses import dataclass

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import (
    FORBID,
    STRICT,
    Integer,
    Number,
    Text,
    Truth,
    read_settings,
)


@dataclass(frozen=True, config=FORBID)
class Window:
    words: Annotated[Integer, Field(ge=1)] = 3
    share: Annotated[Number, Field(ge=0, le=1)] = 0.5
    seconds: Annotated[Number, Field(gt=0)] | None = None
    is_open: Truth = False
    sides: Annotated[tuple[Literal["left", "right"], ...], Field(min_length=1)] = ("left",)


class Server(BaseModel):
    model_config = STRICT
    backend: Literal["server"]
    address: str
    retries: int = 3


class House(BaseModel):
    model_config = STRICT
    window: Window = Window()
    windows: list[Window] = []
    by_name: dict[str, Window] = {}
    judge: Server | None = None
    name: Text | None = None
    size: int | str = 3

    @model_validator(mode="after")
    def _check(self) -> House:
        if self.size == 9:
            raise ValueError("size 9 needs a name")
        if self.size == 8:
            raise ValueError("expected another size")
        return self


def test_sound_settings_are_typed() -> None:
    content = {
        "window": {"words": 4, "sides": ["right"]},
        "judge": {"backend": "server", "address": "here"},
    }
    house = read_settings(House, content, "a.yaml")
    assert house.window == Window(4, sides=("right",))
    assert house.judge == Server(backend="server", address="here")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([1], "found [1]; expected a valid dictionary or instance of House"),
        ({"window": {"words": True}}, "window.words is True; expected a valid integer"),
        ({"window": {"words": 0}}, "window.words is 0; expected greater than or equal to 1"),
        (
            {"window": {"share": float("nan")}},
            "window.share is nan; expected a finite number",
        ),
        ({"window": {"seconds": 0}}, "window.seconds is 0; expected greater than 0"),
        ({"window": {"is_open": 1}}, "window.is_open is 1; expected a valid boolean"),
        (
            {"window": {"sides": "left"}},
            "window.sides is 'left'; expected a valid tuple",
        ),
        (
            {"windows": [{}, {"words": 0}]},
            "windows[1].words is 0; expected greater than or equal to 1",
        ),
        (
            {"by_name": {"x": {"word": 1}}},
            "unknown key 'word' of by_name.x; did you mean words?; known: words, share, seconds, is_open, sides",
        ),
        (
            {"nam": "x"},
            "unknown key 'nam'; did you mean name?; known: window, windows, by_name, judge, name, size",
        ),
        ({"name": 3}, "name is 3; expected a valid string"),
        ({"name": ""}, "name is ''; String should have at least 1 character"),
        (
            {"judge": {"backend": "serve", "address": "x"}},
            "judge.backend is 'serve'; expected 'server'",
        ),
        ({"judge": {"backend": "server"}}, "judge.address is missing; found {'backend': 'server'}"),
        (
            {"judge": {"backend": "server", "address": "x", "retires": 1}},
            "unknown key 'retires' of judge; did you mean retries?; known: backend, address, retries",
        ),
        ({"size": 8}, "found {'size': 8}; expected another size"),
        ({"size": 9}, "size 9 needs a name"),
        (
            {"size": []},
            "size is []; expected a valid integer\na.yaml: size is []; expected a valid string",
        ),
    ],
)
def test_a_problem_names_its_place_and_its_cure(content: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings(House, content, "a.yaml")
    assert str(caught.value) == f"a.yaml: {problem}"


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings(House, {"window": {"words": 0, "share": 2}, "naem": 1, "name": 3}, "a.yaml")
    assert len(str(caught.value).splitlines()) == 4


def test_a_long_value_is_cut() -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings(House, {"window": "x" * 10_000}, "a.yaml")
    assert len(str(caught.value)) < 500
