# SPDX-License-Identifier: GPL-2.0
"""What README.md shows is what the commands print."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from pycontrol.cli import COMMANDS, cli

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
CONSOLES = re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def sessions() -> list[tuple[str, str]]:
    """Commands of the consoles in README.md, without their comments, and the output shown beneath each."""
    found = []
    for block in CONSOLES:
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            found.append((re.sub(r"\s+#.*", "", command), output))
    return found


SHOWN = [(command, output) for command, output in sessions() if output]


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command for command, _ in SHOWN])
def test_outputs_are_what_the_commands_print(command: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    program, *arguments = shlex.split(command)
    assert program == "gpurt"
    done = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert done.exception is None
    assert done.stdout.rstrip() == output.rstrip()


def test_the_first_screen_shows_outputs() -> None:
    assert len(SHOWN) >= 3


def test_every_command_exists() -> None:
    named = [shlex.split(command) for command, _ in sessions()]
    commands = {words[1] for words in named if words[0] == "gpurt"}
    assert commands
    assert commands <= COMMANDS.keys()


def test_the_program_compiles_as_it_stands(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```c\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    source = tmp_path / "program.c"
    source.write_text(program)
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{ROOT}/userlib/include", "-fsyntax-only"]
    done = subprocess.run(["cc", *flags, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_path_exists() -> None:
    for path in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / path).exists(), path


def test_the_design_page_names_what_there_is() -> None:
    """Every file and function that docs/design.md names."""
    folders = ("kmod", "userlib", "pycontrol", "analysis")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".c", ".h", ".py"}]
    names = [path.relative_to(ROOT).as_posix() for path in files]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    spoken = re.findall(r"`([^`]+)`", (ROOT / "docs/design.md").read_text(encoding="utf-8"))
    for word in (word for word in spoken if re.fullmatch(r"[\w/]+\.(c|h|py)", word)):
        assert any(name.endswith(f"/{word}") or name == word for name in names), word
    functions = [word[:-2].rpartition(".")[2] for word in spoken if re.fullmatch(r"[\w.]+\(\)", word)]
    assert len(functions) > 10
    for function in functions:
        assert re.search(rf"\b{function}\(", text), function
