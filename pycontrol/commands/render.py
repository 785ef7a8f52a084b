# SPDX-License-Identifier: GPL-2.0
"""Tables and JSON for people and programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from gpurt.units import US


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns under their headers; numbers to the right."""
    body = [list(map(str, row)) for row in rows]
    widths = [max([len(header), *(len(row[i]) for row in body)]) for i, header in enumerate(headers)]
    numeric = [all(_is_number(row[i]) for row in body) and bool(body) for i in range(len(headers))]

    def line(cells: Sequence[str]) -> str:
        parts = [c.rjust(w) if right else c.ljust(w) for c, w, right in zip(cells, widths, numeric, strict=True)]
        return "  ".join(parts).rstrip()

    return "\n".join([line(headers), line(["-" * width for width in widths]), *map(line, body)])


def _is_number(cell: str) -> bool:
    return cell in ("", "-") or cell[:1].isdigit() or (cell[:1] == "-" and cell[1:2].isdigit())


def ms(ns: int | None) -> str:
    """A time in milliseconds with microseconds; "-" for none."""
    return "-" if ns is None else f"{ns / US / 1000:.3f}"


def emit(data: Any, as_json: bool, text: str) -> None:
    """Prints ``data`` as JSON, or ``text``."""
    click.echo(json.dumps(data, indent=2) if as_json else text)


def progress(total: int, label: str) -> Any:
    """A progress bar on stderr; silent where stderr is not a terminal."""
    return click.progressbar(length=total, label=label, file=sys.stderr, hidden=not sys.stderr.isatty())
