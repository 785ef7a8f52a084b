#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Writes the wrappers of a library's entry points, in C, from the table of its functions.

    wrappers.py cuda.table > cuda.entries.h

A line of a table is a function in one form:

    name  since  suffix  threads  kind  parameters...

name        what the library's own look-up (cuGetProcAddress) knows the function by; the symbol is name and suffix
since       the first version for which the look-up answers with this form; `-` if the library's look-up has no versions
suffix      of the symbol: `_v2`, or `-` if there is none
threads     of the symbol of the form for the per-thread default stream: `ptsz`, `ptds`, `spt`, or `-` for none
kind        a macro of launches.h or of the file that includes the wrappers, in lower case: what the function does
parameters  a letter for the type of each (TYPES), or a name if the macro reads the parameter (NAMED)

A line `pass NAME...` has functions that give no work to the GPU, in no form.  The line `newest VERSION` says up to
which version of the library the table knows all forms.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: How a parameter is passed.  A structure of 8 bytes without floating-point members is passed as Q on x86-64 and arm64.
#: HIP's larger ones (hip_layouts.h) have letters of their own: D, T, X.
TYPES = {
    "C": "unsigned char", "H": "unsigned short", "I": "unsigned int", "Q": "unsigned long long", "Z": "size_t",
    "P": "void *", "F": "float", "D": "struct dim", "T": "struct pitched", "X": "struct extent",
}  # fmt: skip
#: The parameters that macros read, and how each is passed.
NAMED = {
    "stream": "P", "event": "P", "context": "P", "config": "P", "launches": "P", "instantiation": "P", "made": "P",
    "name": "P", "found": "P", "number": "I", "flags": "I", "device": "I", "version": "I", "options": "Q",
    "kind": "I", "size": "Z", "width": "Z", "height": "Z", "start": "P", "stop": "P", "node": "P",
}  # fmt: skip
#: The stream of a function, if it is no parameter of its own.
STREAMS = {"stream": "stream", "config": "stream_of_launch(config)"}
PER_THREAD_SINCE = 7000  # CUDA 7.0 brought per-thread default streams


class Mistake(Exception):
    """A line of the table that says nothing."""


@dataclass(frozen=True)
class Row:
    """A function in one form."""

    name: str
    since: int | None
    suffix: str
    threads: str
    kind: str
    parameters: tuple[str, ...]

    @property
    def symbol(self) -> str:
        """The symbol that the library exports, for the legacy default stream."""
        return self.name + self.suffix

    @property
    def letters(self) -> str:
        """How the parameters are passed."""
        return "".join(NAMED.get(one, one) for one in self.parameters)


@dataclass(frozen=True)
class Table:
    """A table's content: the forms that have wrappers, the functions that need none, and the newest version."""

    rows: tuple[Row, ...]
    passing: tuple[str, ...]
    newest: int

    def until(self, row: Row) -> int:
        """The first version for which the library's look-up does not answer with this form any more."""
        later = [one.since for one in self.rows if one.name == row.name and (one.since or 0) > (row.since or 0)]
        return min((one for one in later if one), default=self.newest + 1)


def parse_wrappers(text: str) -> Table:
    """Reads a table.

    Raises:
        Mistake: A line is malformed, or a function has two lines for one version, or passes and is of a kind.
    """
    rows: list[Row] = []
    passing: list[str] = []
    newest = 0
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        try:
            if not words:
                continue
            if words[0] == "newest":
                newest = int(words[1])
            elif words[0] == "pass":
                passing += words[1:]
            else:
                name, since, suffix, threads, kind = words[:5]
                rows.append(_row(name, since, suffix, threads, kind, tuple(words[5:])))
        except (IndexError, ValueError) as wrong:
            raise Mistake(f"line {number}: {line.strip()}: {wrong}") from None
    forms = [(row.name, row.since) for row in rows]
    twice = {row.name for row in rows if forms.count((row.name, row.since)) > 1} | {
        name for name in passing if passing.count(name) > 1 or any(row.name == name for row in rows)
    }
    if twice:
        raise Mistake(f"more than one line: {', '.join(sorted(twice))}")
    return Table(tuple(rows), tuple(sorted(passing)), newest)


def _row(name: str, since: str, suffix: str, threads: str, kind: str, parameters: tuple[str, ...]) -> Row:
    unknown = [one for one in parameters if one not in TYPES and one not in NAMED]
    if unknown or threads not in ("-", "ptsz", "ptds", "spt"):
        raise ValueError(f"unknown: {' '.join(unknown) or threads}")
    return Row(name, None if since == "-" else int(since), "" if suffix == "-" else suffix,
               "" if threads == "-" else f"_{threads}", kind, parameters)  # fmt: skip


def _wrapper(row: Row, per_thread: bool) -> str:
    names = [one if one in NAMED else f"p{i}" for i, one in enumerate(row.parameters)]
    types = [TYPES[NAMED.get(one, one)] for one in row.parameters]
    declared = ", ".join(f"{kind} {name}".replace("* ", "*") for kind, name in zip(types, names, strict=True)) or "void"
    stream = next((STREAMS[one] for one in row.parameters if one in STREAMS), "NULL")
    macro = row.kind.upper().replace("-", "_")
    symbol = row.symbol + (row.threads if per_thread else "")
    return f"{macro}({symbol}, {str(per_thread).lower()}, {stream}, ({declared}), ({', '.join(names)}))"


def _entries(table: Table, row: Row) -> Iterator[str]:
    if row.since is None:
        yield from (f"ENTRY({row.symbol}{ending})" for ending in sorted({"", row.threads}))
        return
    until = table.until(row)
    yield f'ENTRY_OF({row.symbol}, "{row.name}", false, {row.since}, {until})'
    since = max(row.since, PER_THREAD_SINCE) if row.threads else row.since
    if since < until:
        yield f'ENTRY_OF({row.symbol}{row.threads}, "{row.name}", true, {since}, {until})'


def generate_wrappers(table: Table) -> Iterator[str]:
    """The lines of C: a wrapper for each symbol, the arrays `entries` and `passing`, and what uses these."""
    for row in table.rows:
        yield _wrapper(row, False)
        if row.threads:
            yield _wrapper(row, True)
    yield "static const struct entry_point entries[] = {"
    for row in table.rows:
        for entry in _entries(table, row):
            yield f"\t{entry},"
    yield "};"
    yield "static const char *const passing[] = {"
    for name in table.passing:
        yield f'\t"{name}",'
    yield "};"
    yield "static const struct driver driver = { driver_symbol, passing, COUNT(passing) };"
    yield "static void *next_symbol(const char *name)"
    yield "{\n\treturn preload_ready() ? chained(&driver, name, driver_symbol(name)) : NULL;\n}"


def _main(path: str) -> int:
    """Prints the wrappers, or a line on stderr that says what is wrong with the table.  Returns the exit status."""
    try:
        lines = list(generate_wrappers(parse_wrappers(Path(path).read_text())))
    except Mistake as mistake:
        print(f"{path}: {mistake}", file=sys.stderr)
        return 1
    print(f"/* Written by wrappers.py from {Path(path).name}. */", *lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
