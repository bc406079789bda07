"""Templates of strangers: what they may do, and what takes a machine."""

from __future__ import annotations

import time

import pytest
from jinja2 import TemplateError

from lm_factuality.ground.sandbox import BoundedEnvironment

VALUES = {"title": "Snow", "text": "It fell.", "parts": ["a", "b"], "year": 2020}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ title }}: {{ text|trim }}", "Snow: It fell."),
        ("{{ title ~ ', ' ~ year }}", "Snow, 2020"),
        ("{{ parts|join(', ') }} {{ text|replace('fell', 'lay') }}", "a, b It lay."),
        ("{{ year + 1 }} {{ (title + text)[:6] }} {{ text.split()[0] }}", "2021 SnowIt It"),
        ("{% if year > 2000 and 'S' in title %}new{% else %}old{% endif %}", "new"),
    ],
)
def test_what_a_template_is_for(template, expected):
    assert BoundedEnvironment().from_string(template).render(**VALUES) == expected


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ("{{ 'a' * 10000000000 }}", "is not taken"),
        ("{{ 10 ** 10000000 }}", "is not taken"),
        ("{{ '%1000000000d' % 1 }}", "is not taken"),
        ("{{ 'a'.ljust(10000000000) }}", "unsafe"),
        ("{{ '{:>10000000000}'.format(1) }}", "format"),
        ("{{ 'a'|center(10000000000) }}", "No filter named"),
        ("{{ 'a'|indent(10000000000) }}", "No filter named"),
        ("{% for part in parts %}{{ part }}{% endfor %}", "For"),
        ("{{ range(10000000000)|list }}", "range"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "Macro"),
        ("{% set a %}{{ text }}{{ text }}{% endset %}", "AssignBlock"),
        ("{% set a = text %}" + "{% set a = a ~ a %}" * 60, "Assign"),
        ("{{ text" + "|replace('l', 'llllllllll')" * 60 + " }}", "characters"),
        ("{{ text" + "|list|join('llllllllll')" * 60 + " }}", "characters"),
        ("{{ text" + " ~ text" * 600 + " }}", "characters"),
        ("{{ text" + " + text" * 150 + " }}", "characters"),
        ("{{ ''.__class__ }}", "unsafe"),
        ("{% include 'file' %}", "Include"),
        ("{{ missing }}", "missing"),
        ("x" * 30_000, "30,000 characters"),
    ],
)
def test_what_would_take_the_machine_is_refused_at_once(template, named):
    begin = time.monotonic()
    with pytest.raises((TemplateError, TypeError), match=named):
        BoundedEnvironment().from_string(template).render(**VALUES | {"text": "It fell." * 1000})
    assert time.monotonic() - begin < 30
