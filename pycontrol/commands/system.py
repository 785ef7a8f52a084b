# SPDX-License-Identifier: GPL-2.0
"""The commands about the machine, and about words of files, commands and shells: doctor, help."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import get_completion_class

from analysis.taskset import json_schema, load
from analysis.taskset.document import keys
from analysis.taskset.schema import foreign
from gpurt.errors import EXIT_CODES, UsageError
from gpurt.text import in_lines, near
from pycontrol.commands.options import JSON, command
from pycontrol.observe.doctor import Status, as_text, examine
from pycontrol.output import render
from pycontrol.table import COMPLETE, paths

#: The shells for which click has completion scripts.
SHELLS = ("bash", "zsh", "fish")


@command(
    epilog="""\b
Examples:
  gpurt doctor
  gpurt doctor robot.toml
  gpurt --device /run/gpurt/host.sock doctor --json

\b
Exit codes: 0 nothing is broken (warnings are possible); 1 something is, or speaks against FILE; 2 wrong usage;
3 FILE is wrong."""
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@JSON
@click.pass_obj
def doctor_command(device: str | None, file: Path | None, as_json: bool) -> int:
    """Check what real time needs on this machine, and say how to mend what is missing.

    With FILE, also whether the machine and the host are what that taskset file describes: its clocks, for one.
    """
    findings = examine(device, file=load(file) if file else None)
    render.emit({"findings": findings}, as_json, as_text(findings))
    return 1 if any(finding.status is Status.FAIL for finding in findings) else 0


@command(
    epilog="""\b
Examples:
  gpurt help plan modes
  gpurt help task.period           a key of taskset files, of a table or of all
  gpurt help epsilon
  gpurt help keys
  gpurt help exit codes
  gpurt help schema > FILE         the JSON Schema of taskset files, for editors
  eval "$(gpurt help completion bash)"
  gpurt help completion fish > ~/.config/fish/completions/gpurt.fish

\b
Exit codes: 0 done; 2 there is no such word."""
)
@click.argument("words", nargs=-1)
@click.pass_context
def help_command(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Say what a command, a key of a taskset file or an exit code is; print a schema, or a completion script."""
    root, text = ctx.find_root().command, " ".join(words)
    if not text or text in dict(paths()):
        root.main([*words, "--help"], prog_name="gpurt", standalone_mode=False)
        return 0
    if "-".join(words) == "exit-codes":
        render.say(render.table(("code", "meaning"), [(str(code), text) for code, text in EXIT_CODES.items()]))
        return 0
    if words[:1] == ("completion",):
        if len(words) != 2 or words[1] not in SHELLS:
            raise UsageError(f"name a shell: help completion {'|'.join(SHELLS)}")
        kind = get_completion_class(words[1])
        assert kind is not None
        click.echo(kind(root, {}, "gpurt", COMPLETE).source())
        return 0
    if text == "schema":
        click.echo(in_lines(json_schema()))
        return 0
    known = dict(keys())
    found = list(known) if text == "keys" else [
        one for one in known if one == text or one.startswith(f"{text}.") or one.rpartition(".")[2] == text
    ]
    if not found:
        leaves = {one.rpartition(".")[2] for one in known}
        meant = near(text, [*known, *dict(paths()), *leaves])
        usual = f"; did you mean {' or '.join(dict.fromkeys(meant))}?" if meant else "; docs/taskset.md has all keys"
        hint = foreign(text, "", leaves) or usual
        raise UsageError(f"no command and no key of taskset files is called {text!r}{hint}")
    render.say("\n".join(f"{one}: {known[one]}" for one in found))
    return 0
