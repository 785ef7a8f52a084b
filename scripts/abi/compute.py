# SPDX-License-Identifier: GPL-2.0
"""Values of C expressions, as the compiler computes them with given headers."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HEAD = "#define _GNU_SOURCE\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <sys/ioctl.h>\n"
#: The included code refers to symbols that are not linked; nothing calls them.
FLAGS = ["-std=gnu11", "-w", "-O0", "-fmax-errors=0", "-Wl,--unresolved-symbols=ignore-all", "-no-pie"]


class CannotCompileError(Exception):
    """The headers themselves do not compile."""


@dataclass(frozen=True)
class Headers:
    """Code with declarations, and the folders of its headers."""

    code: str
    folders: Sequence[Path] = ()


def values(headers: Headers, expressions: Sequence[str]) -> list[int | None]:
    """The value of each expression, or None if the headers do not declare its names.

    Raises:
        CannotCompileError: The headers do not compile, whatever the expressions.
    """
    found: list[int | None] = [None] * len(expressions)
    left = list(range(len(expressions)))
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "facts"
        while True:
            errors = _compile(headers, {i: expressions[i] for i in left}, program)
            if not errors:
                break
            unknown = {int(line) - 1 for line in re.findall(r"^facts:(\d+):(?:\d+:)? error", errors, re.M)}
            if not unknown:
                first = next((line for line in errors.splitlines() if "error" in line), errors.strip()[:200])
                raise CannotCompileError(first)
            left = [i for i in left if i not in unknown]
        printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    for line in printed.splitlines():
        number, value = line.split()
        found[int(number)] = int(value)
    return found


def _compile(headers: Headers, expressions: dict[int, str], program: Path) -> str:
    """Compiles the program; returns the compiler's complaints, or ""."""
    shows = [
        f'#line {i + 1} "facts"\n\tprintf("%d %llu\\n", {i}, (unsigned long long)({expression}));'
        for i, expression in expressions.items()
    ]
    code = "\n".join([HEAD, headers.code, "int main(void)\n{", *shows, "\treturn 0;\n}\n"])
    folders = [f"-I{one}" for one in headers.folders]
    command = ["cc", *FLAGS, *folders, "-xc", "-", "-o", str(program)]
    done = subprocess.run(command, input=code, capture_output=True, text=True, check=False)
    return (done.stderr or "no output of the compiler: error") if done.returncode else ""
