# SPDX-License-Identifier: GPL-2.0
"""Man pages from the command line itself, so that they cannot say anything else."""

from __future__ import annotations

import click

from pycontrol.cli import cli


def pages() -> dict[str, str]:
    """File name -> troff source, for gpurt(1) and every command."""
    context = _root()
    commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    made = {"gpurt.1": _page("gpurt", cli, [f"gpurt-{name}" for name in commands])}
    for name, command in commands.items():
        assert command is not None
        made[f"gpurt-{name}.1"] = _page(f"gpurt {name}", command, ["gpurt"])
    return made


def _root() -> click.Context:
    return click.Context(cli, info_name="gpurt", help_option_names=cli.context_settings["help_option_names"])


def _escape(text: str) -> str:
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)


def _page(name: str, command: click.Command, see: list[str]) -> str:
    context = click.Context(command, info_name=name, parent=_root())
    title = name.replace(" ", "-")
    usage = " ".join(command.collect_usage_pieces(context))
    about = (command.help or "").strip()
    lines = [
        f'.TH {_escape(title).upper()} 1 "" gpurt',
        ".SH NAME", f"{_escape(title)} \\- {_escape(command.get_short_help_str(120))}",
        ".SH SYNOPSIS", f".B {_escape(name)}", _escape(usage),
        ".SH DESCRIPTION", _escape(about), ".SH OPTIONS",
    ]  # fmt: skip
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record:
            lines += [".TP", f".B {_escape(record[0])}", _escape(record[1])]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for one in command.list_commands(context):
            child = command.get_command(context, one)
            assert child is not None
            lines += [".TP", f".B {_escape(one)}", _escape(child.get_short_help_str(120))]
    if command.epilog:
        lines += [".SH EXAMPLES AND EXIT CODES", ".nf", _escape(command.epilog.replace("\b\n", "").strip()), ".fi"]
    lines += [".SH SEE ALSO", ", ".join(f".BR {_escape(page)} (1)" for page in see).replace(", .BR", ",\n.BR")]
    return "\n".join(lines) + "\n"
