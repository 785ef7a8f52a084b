# SPDX-License-Identifier: GPL-2.0
"""The line of every value in a TOML document, which tomllib does not report.

A TOML parser must have accepted the document: this module only follows its structure.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_LITERAL = re.compile(r"'([^'\n]*)'")
_LONG_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}(?!")', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''.*?'{3,5}(?!')", re.DOTALL)
_SCALAR = re.compile(r"[^,\]}#\n]*")


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self.counts: dict[Path, int] = {}
        self._counted_to = 0
        self._line = 1

    def line(self) -> int:
        self._line += self.text.count("\n", self._counted_to, self.at)
        self._counted_to = self.at
        return self._line

    def note(self, path: Path) -> None:
        self.lines.setdefault(path, self.line())

    def match(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found.group(found.lastindex or 0)

    def key(self) -> list[str]:
        """A possibly dotted key, as its parts."""
        parts = []
        while True:
            self.match(_SPACE)
            part = self.match(_BARE) or self.match(_BASIC) or self.match(_LITERAL) or ""
            parts.append(part.encode().decode("unicode_escape", "replace") if "\\" in part else part)
            self.match(_SPACE)
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1

    def resolve(self, parts: list[str]) -> Path:
        """The path of a table header; inside an array of tables, a path into its last element."""
        path: Path = ()
        for part in parts:
            path += (part,)
            self.note(path)
            if path in self.counts:
                path += (self.counts[path] - 1,)
        return path

    def document(self) -> None:
        base: Path = ()
        self.match(_BLANK)
        while self.at < len(self.text):
            if self.text.startswith("[[", self.at):
                self.at += 2
                parts = self.key()
                array = (*self.resolve(parts[:-1]), parts[-1])
                self.note(array)
                index = self.counts.get(array, 0)
                self.counts[array] = index + 1
                base = (*array, index)
                self.note(base)
                self.at += 2
            elif self.text.startswith("[", self.at):
                self.at += 1
                base = self.resolve(self.key())
                self.note(base)
                self.at += 1
            else:
                self.pair(base)
            self.match(_BLANK)

    def pair(self, base: Path) -> None:
        before = self.at
        path = base
        for part in self.key():
            path += (part,)
            self.note(path)
        if not self.text.startswith("=", self.at):  # not TOML after all: go on, so that the scan ends
            self.at = max(self.at, before + 1)
            return
        self.at += 1
        self.match(_SPACE)
        self.value(path)

    def value(self, path: Path) -> None:
        if self.text.startswith("[", self.at):
            self.array(path)
        elif self.text.startswith("{", self.at):
            self.inline_table(path)
        else:
            for pattern in (_LONG_BASIC, _LONG_LITERAL, _BASIC, _LITERAL, _SCALAR):
                if self.match(pattern) is not None:
                    break

    def array(self, path: Path) -> None:
        self.at += 1
        index = 0
        self.match(_BLANK)
        while self.at < len(self.text) and self.text[self.at] != "]":
            before = self.at
            self.note((*path, index))
            self.value((*path, index))
            self.separator(before)
            index += 1
        self.at += 1

    def inline_table(self, path: Path) -> None:
        self.at += 1
        self.match(_BLANK)
        while self.at < len(self.text) and self.text[self.at] != "}":
            before = self.at
            self.pair(path)
            self.separator(before)
        self.at += 1

    def separator(self, before: int) -> None:
        self.match(_BLANK)
        if self.text.startswith(",", self.at):
            self.at += 1
            self.match(_BLANK)
        self.at = max(self.at, before + 1)


def lines_of(text: str) -> dict[Path, int]:
    """The 1-based line of every table, key and array element, by its path of keys and indexes."""
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.document()
    return scanner.lines


def line_of(lines: dict[Path, int], path: Path) -> int:
    """The line of the value at ``path``, or of the nearest enclosing value that has one; otherwise 1."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)
