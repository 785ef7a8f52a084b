# SPDX-License-Identifier: GPL-2.0
"""The output of commands: text for people, and one JSON document for programs (docs/output.md)."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from gpurt.enums import Words
from gpurt.text import is_terminal, visible
from gpurt.types import Document, DocumentView
from gpurt.units import US
from pycontrol.output.progress import Progress

#: The version of JSON documents: increases if a key goes or changes its type or meaning, not if a key is added.
SCHEMA_VERSION = 1
#: Keys of a context's ``meta``: whether the user wants neither remarks nor progress, and whether progress is shown.
QUIET, PROGRESS = "gpurt.quiet", "gpurt.progress"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, blocks: bool = True) -> str:
    """Columns under their headers; numbers to the right.  If the terminal is too narrow, a block for each row.

    Without ``blocks`` the caller ensures the width.
    """
    body = [list(map(visible, row)) for row in rows]
    widths = [max([len(header), *(len(row[i]) for row in body)]) for i, header in enumerate(headers)]
    if blocks and (most := columns()) and sum(widths) + 2 * (len(widths) - 1) > most:
        return _blocks(headers, body)
    numeric = [all(_is_number(row[i]) for row in body) and bool(body) for i in range(len(headers))]

    def line(cells: Sequence[str]) -> str:
        parts = [c.rjust(w) if right else c.ljust(w) for c, w, right in zip(cells, widths, numeric, strict=True)]
        return "  ".join(parts).rstrip()

    return "\n".join([line(headers), line(["-" * width for width in widths]), *map(line, body)])


def columns() -> int | None:
    """The width of a line: the terminal's, or COLUMNS; None if stdout is no terminal."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None


def _blocks(headers: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """The cells of each row, one below the other, without empty cells."""
    longest = max(map(len, headers))
    blocks = []
    for row in body:
        cells = [(header, cell) for header, cell in zip(headers, row, strict=True) if cell.strip("- ")]
        blocks.append("\n".join(f"{header:{longest}}  {cell}" for header, cell in cells))
    return "\n\n".join(blocks) if blocks else "  ".join(headers)


def _is_number(cell: str) -> bool:
    return cell in ("", "-") or cell[:1].isdigit() or (cell[:1] == "-" and cell[1:2].isdigit())


def ms(ns: int | None) -> str:
    """A time in milliseconds with microseconds, or nanoseconds if it has no whole microseconds; "-" for None."""
    if ns is None:
        return "-"
    return f"{ns / US / 1000:.6f}" if 0 < abs(ns) < US else f"{ns / US / 1000:.3f}"


def bound(ns: int | None) -> str:
    """As `ms`, but rounded up, so that the printed number is a bound, too."""
    return ms(None if ns is None else -(-ns // US) * US)


def room(ns: int | None) -> str:
    """As `ms`, but rounded down, so that there is at least as much room as printed."""
    return ms(ns if ns is None or abs(ns) < US else ns // US * US)


def say(text: str, err: bool = False) -> None:
    """Prints lines of text.  No control character in them reaches the terminal."""
    lines = "\n".join(map(visible, text.split("\n")))
    if err:
        remark(lines)
    else:
        click.echo(lines)


def remark(text: str) -> None:
    """Writes to stderr.  If stderr cannot be written, answer and exit code stay the same."""
    try:
        click.echo(text, err=True)
    except OSError:
        discard(2)


def discard(descriptor: int) -> None:
    """Discards Python's buffered output for a descriptor, which would fail once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def note(*notes: str, as_json: bool) -> None:
    """Prints remarks on stderr; nothing with ``as_json``, since the document's ``notes`` have them."""
    for one in () if as_json or _said(QUIET) else folded(notes):
        say(f"note: {visible(one)}", err=True)


#: The most notes of one kind that are printed in full; of more notes, only the first subjects are printed.
MAX_NOTES_OF_A_KIND = 3
#: Verdicts in documents, and their words for yes and no.
VERDICTS = {"schedulable": ("schedulable", "NOT PROVED"), "in_time": ("every job was in time", "NOT IN TIME")}


def folded(notes: Sequence[str]) -> list[str]:
    """The notes; notes with the same text after the last colon are joined into one."""
    kinds: dict[str, list[str]] = {}
    for one in dict.fromkeys(notes):
        about, _, said = one.rpartition(": ")
        kinds.setdefault(said if about else re.sub("[0-9]+", "", one), []).append(one)
    few = ((said, alike, len(alike) <= MAX_NOTES_OF_A_KIND) for said, alike in kinds.items())
    return [line for said, alike, whole in few for line in (alike if whole else [_fold(said, alike)])]


def _fold(said: str, alike: Sequence[str]) -> str:
    about = "; ".join(one.removesuffix(f": {said}") for one in alike[:MAX_NOTES_OF_A_KIND])
    more = f"{about}; and {len(alike) - MAX_NOTES_OF_A_KIND} more of this kind (--json has all)"
    return f"{more}: {said}" if alike[0].endswith(f": {said}") else more


def _last(data: DocumentView, text: str) -> str:
    """The verdict, to be repeated below a text that is higher than the terminal; empty if the text fits."""
    key = next((one for one in VERDICTS if one in data), None)
    if key is None or not is_terminal(sys.stdout) or text.count("\n") + 2 < shutil.get_terminal_size().lines:
        return ""
    yes, no = VERDICTS[key]
    return yes if data[key] else f"{no}: {data['why']}" if data.get("why") else no


def emit(data: DocumentView, as_json: bool, text: str) -> None:
    """Prints the command's result: ``data`` as a JSON document, or ``text``."""
    if as_json:
        click.echo(json.dumps(document(_command(), data), indent=2))
    else:
        say(text)
        if last := _last(data, text):
            say(last)


def emit_line(data: DocumentView) -> None:
    """Prints one of several JSON documents of a command, on a line of its own."""
    click.echo(json.dumps(document(_command(), data)))


def _command() -> str | None:
    """The running command, with its group."""
    context: click.Context | None = click.get_current_context()
    words: list[str] = []
    while context is not None and context.parent is not None:
        words.insert(0, context.info_name or "")
        context = context.parent
    return " ".join(words) or None


def document(command: str | None, data: DocumentView) -> Document:
    """A JSON document: its version, its command, and the data."""
    return {"schema": SCHEMA_VERSION, "command": command, **plain(data)}


def plain(value: Any) -> Any:
    """A value in the form of JSON.

    A dataclass becomes an object of its fields, a member of an enumeration its word on the command line, a path its
    text, and a fraction a number.
    """
    if isinstance(value, Words):
        return value.word
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value


def progress(total: int, label: str) -> Progress:
    """Shows the progress of some work on stderr (pycontrol/output/progress.py)."""
    wanted = _said(PROGRESS)
    return Progress(total, label, shown=not quiet() if wanted is None else bool(wanted))


def _said(key: str) -> Any:
    """The value of an option of all commands; None if there is none."""
    context = click.get_current_context(silent=True)
    return context and context.meta.get(key)


def quiet() -> bool:
    """Whether the user wants no remarks."""
    return bool(_said(QUIET))
