# SPDX-License-Identifier: GPL-2.0
"""Text of others, such as names of files, tasks and programs, made fit for a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TextIO


def visible(text: object) -> str:
    """The text on one line, with every character escaped that a terminal would obey or not show.

    Those are control characters, line ends, marks that change the direction of writing, and bytes that are not UTF-8.
    They are written as Python writes them: ESC as ``\\x1b``.
    """
    said = str(text)
    return said if said.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in said)


def near(word: str, known: Iterable[str], most: int = 1, cutoff: float = 0.6) -> list[str]:
    """The known words that the user may have meant: those that begin so, and the nearest ones."""
    from difflib import get_close_matches  # takes longer to load than most commands to run, and only mistakes need it

    words = list(known)
    whole = [one for one in words if len(word) > 2 and one.startswith(word)]
    return list(dict.fromkeys([*whole, *get_close_matches(word, words, most, cutoff)]))[:most]


def filename(path: object) -> str:
    """How messages name a file: its path, made visible; "-" is standard input."""
    return "standard input" if str(path) == "-" else visible(path)


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # a byte that is not UTF-8, as os.fsdecode() carries it
        return f"\\x{number - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person sees what is written.  After the shell's ``2>&-`` there is no stream at all."""
    return stream is not None and stream.isatty()


def in_lines(data: object, room: int = 160) -> str:
    """The data as JSON.  What fits into ``room`` characters is one line, and what holds no list and no object."""
    text = json.dumps(data)
    if len(text) <= room or not isinstance(data, (dict, list)) or not re.search(r"[\[{]", text[1:]):
        return text
    keys = [f"{json.dumps(key)}: " for key in data] if isinstance(data, dict) else [""] * len(data)
    values = data.values() if isinstance(data, dict) else data
    inside = [key + in_lines(one, room - 1 - len(key)) for key, one in zip(keys, values, strict=True)]
    lines = ",\n".join(inside).replace("\n", "\n ")
    return f"{text[0]}\n {lines}\n{text[-1]}"
