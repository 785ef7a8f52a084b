# SPDX-License-Identifier: GPL-2.0
"""The text of a taskset file, and its tables as TOML has them, with their lines."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from analysis.taskset.lines import lines_of
from analysis.taskset.schema import Mistakes
from gpurt import files
from gpurt.errors import Problem, TasksetError
from gpurt.types import Document

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

MAX_BYTES = 64 * 2**20
#: More tasks than these take longer to read than somebody waits.
MOST_TASKS = 5000
_TASK = re.compile(r"^[ \t]*\[\[[ \t]*task[ \t]*\]\]", re.MULTILINE)


def document_of(path: Path, text: str) -> tuple[Document, Mistakes]:
    """The tables of a TOML file, and a report that knows its lines.  Raises TasksetError if it is not TOML."""
    if (count := len(_TASK.findall(text))) > MOST_TASKS:
        problem = f"the file has {count} tasks; files of at most {MOST_TASKS} are read"
        raise TasksetError(path, [Problem(1, problem)])
    try:
        return tomllib.loads(text), Mistakes(lines_of(text))
    except tomllib.TOMLDecodeError as error:
        raise TasksetError(path, [_syntax_problem(error, text)]) from None
    except ValueError:  # Python refuses to read integers of thousands of digits
        raise TasksetError(path, [Problem(1, "an integer is far too large")]) from None
    except RecursionError:
        raise TasksetError(path, [Problem(1, "nested too deeply")]) from None


def read(path: Path) -> str:
    """A file's text.  Raises FileError if it cannot be read, and TasksetError if it is not UTF-8 or empty."""
    return decoded(path, files.read(path, MAX_BYTES, "a taskset file"))


def decoded(path: Path, raw: bytes) -> str:
    """The text of a file of that name with that content.  Raises TasksetError if it is not UTF-8, or empty."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = Problem(line, f"byte {error.start} is not UTF-8; a taskset file is UTF-8 text")
        raise TasksetError(path, [problem]) from None
    if not text.strip():
        raise TasksetError(path, [Problem(1, "the file is empty; see examples/minimal.toml for one to start from")])
    return text


def _syntax_problem(error: Exception, text: str) -> Problem:
    """The parser's complaint, with the line that its text names."""
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", str(error))
    message = str(error)[: found.start()] if found else str(error)
    line = int(found[1]) if found and found[1] else text.count("\n") + 1
    return Problem(line, f"not TOML: {message[:200]}")
