# SPDX-License-Identifier: GPL-2.0
"""Carries out a page of the manual: its files are written, and its consoles' commands executed, in the page's order.

A fenced block whose language is not `console` is written to the file that the text before it names last, as `name`.
A command that begins a host is not executed: the test has one.  Commands succeed, unless a comment names exit codes.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MANUAL = ROOT / "docs/manual"
#: A host that a page starts, with its options.
HOST = re.compile(r"gpurt (?:emulate|serve)((?: --\S+ \S+)*) &")
#: How long a command may take, s, on a busy machine.
PATIENCE = 200.0


def carry_out(page: Path, folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Carries out a page in a folder; the commands, in order."""
    text = page.read_text(encoding="utf-8")
    executed = []
    end = 0
    for block in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        language, content = block.groups()
        if language == "console":
            for line in content.splitlines():
                execute(line, folder, environment)
                executed.append(line)
        else:
            name = re.findall(r"`([\w-]+\.\w+)`", text[end : block.start()])[-1]
            (folder / name).write_text(content, encoding="utf-8")
        end = block.end()
    return executed


def execute(line: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Executes a line of a console."""
    assert line.startswith("$ "), f"manual pages show commands without output: {line}"
    command, _, comment = line[2:].partition("  #")
    if HOST.fullmatch(command.strip()):
        return
    codes = [int(code) for code in re.findall(r"\d+", "".join(re.findall(r"exit code ([\d or]+)", comment)))]
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=dict(environment), capture_output=True, text=True, check=False,
        timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode in (codes or [0]), f"{line}\n{done.stdout}{done.stderr}"
