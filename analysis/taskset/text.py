# SPDX-License-Identifier: GPL-2.0
"""The text of a taskset file, and its tables as TOML represents them, with their lines."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from analysis.taskset.schema import Mistakes
from gpurt import files
from gpurt.errors import Problem, TasksetError
from gpurt.types import Document

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

MAX_TASKSET_BYTES = 64 * 2**20
#: Reading more tasks takes longer than a user would wait.
MAX_TASKS_READ = 5000
_TASK = re.compile(r"^[ \t]*\[\[[ \t]*task[ \t]*\]\]", re.MULTILINE)


def document_of(path: Path, text: str) -> tuple[Document, Mistakes]:
    """The tables of a TOML file, and a report that knows its lines.  Raises TasksetError if it is not TOML."""
    if (count := len(_TASK.findall(text))) > MAX_TASKS_READ:
        problem = f"the file has {count} tasks; files of at most {MAX_TASKS_READ} are read"
        raise TasksetError(path, [Problem(1, problem)])
    try:
        return tomllib.loads(text), Mistakes(text)
    except tomllib.TOMLDecodeError as error:
        raise TasksetError(path, [_syntax_problem(error, text)]) from None
    except ValueError:  # Python refuses integers of thousands of digits
        raise TasksetError(path, [Problem(1, "an integer is far too large")]) from None
    except RecursionError:
        raise TasksetError(path, [Problem(1, "nested too deeply")]) from None


def read_text(path: Path) -> str:
    """A file's text.  Raises FileError if it cannot be read, and TasksetError if it is not UTF-8 or empty."""
    return decoded(path, files.read_whole(path, MAX_TASKSET_BYTES, "a taskset file"))


def decoded(path: Path, raw: bytes) -> str:
    """The text of a file with that name and content.  Raises TasksetError if it is not UTF-8, or empty."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = Problem(line, f"byte {error.start} is not UTF-8; a taskset file is UTF-8 text")
        raise TasksetError(path, [problem]) from None
    if not text.strip():
        raise TasksetError(path, [Problem(1, "the file is empty; see examples/minimal.toml for one to start from")])
    return text


#: The parser's message, the text where it stopped, and a message for users who do not know its grammar.
_WORDS = (
    ("Invalid initial character", "}", "a table in braces does not end with a comma; leave the last one out"),
    ("Invalid initial character", "[\n#]|$", "a table in braces stands on one line; only [ ] goes over several"),
    ("Unclosed inline table", "[\n#]|$", "a table in braces is not closed on its line: } is missing"),
    ("Unclosed inline table", "", "a comma is missing in the table in braces, or its }, or the quotes around a value"),
    ("Unclosed array", "", "a comma is missing in the array, or its ], or the quotes around a value"),
    ("Expected newline", " *[a-zA-Z%]", "something follows the value; times are texts in quotes, as \"5ms\""),
    ("Expected newline", "", "something follows the value; a line has one key and one value, and no comma at its end"),
    ("Invalid value", "[Tt]rue|[Ff]alse|TRUE|FALSE", "true and false are written in small letters"),
    ("Invalid value", "[\n#]|$", "a value is missing"),
    ("Invalid value", "[\u2018-\u201f]", "these quotes are typographic; write \" and \""),
    ("Invalid value", "", "a text needs quotes, as in name = \"camera\""),
    ("Illegal character '\\n'", "", "the text is not closed on its line: a quote is missing"),
    ("Found invalid character '\\n'", "", "the text is not closed on its line: a quote is missing"),
    ("Expected \"'\"", "", "the text is not closed: a quote is missing"),
    ("Unterminated string", "", "the text is not closed: a quote is missing"),
    ("Expected '=' after a key", ":", "write = between a key and its value, not a colon"),
    ("Expected '=' after a key", "", "write = between a key and its value"),
    ("Cannot overwrite a value", "", "this key, or a table of its name, stands further up already"),
    ("Cannot declare", "", "this table stands further up already; each task has a [[task]] of its own"),
    ("Invalid statement", "//|--|;", "a comment begins with #"),
    ("Invalid statement", "{", "this is JSON, and taskset files are TOML: examples/minimal.toml is one"),
)


def _syntax_problem(error: Exception, text: str) -> Problem:
    """The parser's complaint in a user's words, with the line that its text names."""
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", str(error))
    message = str(error)[: found.start()] if found else str(error)
    lines = text.replace("\r\n", "\n").rstrip().split("\n")
    line, column = (int(found[1]), int(found[2])) if found and found[1] else (len(lines), len(lines[-1]) + 1)
    rest = "\n".join(lines[line - 1 : line + 1])[column - 1 :]
    known = (words for start, there, words in _WORDS if message.startswith(start) and re.match(there, rest))
    return Problem(line, f"not TOML: {next(known, message[:200])}")
