# SPDX-License-Identifier: GPL-2.0
"""The report's page, made only from its document: every number on the page is in the document."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from analysis.answers.sensitivity import Grows
from analysis.model import POLICIES
from gpurt.text import visible
from gpurt.types import DocumentView
from gpurt.units import exact_ms
from pycontrol.observe.observed import VERDICTS
from pycontrol.output.render import bound, folded, room

#: Times that are rounded down, so that the page's statements hold; others are rounded up.
DOWN = frozenset(("slack_ns", "most_ns", "most_epsilon_ns"))
#: Times from the file, which are not rounded.
EXACT = frozenset((
    "deadline_ns", "period_ns", "epsilon_ns", "alpha_ns", "theta_ns", "worst_ns", "best_ns", "misc_worst_ns",
    "misc_best_ns", "cpu_ns", "misc_ns", "pure_ns", "now_ns",
))  # fmt: skip
#: A command inside a message.
_COMMAND = re.compile("`([^`]+)`")
#: How the page spells the support for an assumption.
SUPPORT = {
    "checked": "checked, holds", "unrefuted": "seen to hold, not proved", "unchecked": "UNCHECKED",
    "refuted": "DOES NOT HOLD",
}  # fmt: skip


def page(document: DocumentView) -> str:
    """The HTML of a report's document, which is plain data (``pycontrol.output.render.plain``)."""
    return _template().render(**document, num=lambda *path: _number(document, *path)) + "\n"


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("pycontrol.observe.report"), autoescape=True, undefined=StrictUndefined, finalize=_shown,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"folded": folded, "said": _said}
    environment.globals |= {
        "words": {one.value: one.words for one in Grows},
        "support": SUPPORT, "policies": {one.name: one.sentence for one in POLICIES.values()}, "verdicts": VERDICTS,
    }  # fmt: skip
    return environment.get_template("report.html")


def _number(document: DocumentView, *path: object) -> Markup:
    """The number at that path of the document, with the path as a JSON pointer (RFC 6901); "-" if there is none.

    ``path``: keys and indexes; a tuple stands for several.
    """
    value: Any = document
    words = [word for one in path for word in (one if isinstance(one, tuple) else (one,))]
    for word in words:
        value = value[word]
    pointer = escape(visible("".join("/" + str(word).replace("~", "~0").replace("/", "~1") for word in words)))
    if value is None:
        return Markup(f'<span class="none" data-at="{pointer}">-</span>')
    spelt = escape(_spelt(str(words[-1]), value))
    return Markup(f'<data value="{escape(value)}" data-at="{pointer}">{spelt}</data>')  # format() takes longer


def _spelt(key: str, value: Any) -> str:
    """A number as the page writes it; times are in ms."""
    if not key.endswith("_ns"):
        return f"{int(value * 10_000) / 10_000:.4f}" if isinstance(value, float) else str(value)
    if key in EXACT:
        return exact_ms(value).removesuffix(" ms")
    return room(value) if key in DOWN else bound(value)


def _shown(value: Any) -> Any:
    """A value as the page shows it: without control characters in foreign text."""
    if value is None:
        return "-"
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _said(text: str | None) -> Markup:
    """A message; commands in it are set as code."""
    return Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(_shown(text)))))
