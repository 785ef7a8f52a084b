# SPDX-License-Identifier: GPL-2.0
"""A --device before a command that asks no host is refused: it would do nothing."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import click
import pytest
from calls import caller

from pycontrol import cli

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "examples/minimal.toml"


def takes_the_device(name: str) -> bool:
    """Whether the command, or a part of it, is given what --device names."""
    command = cli.cli.get_command(click.Context(cli.cli), name)
    parts = [command, *getattr(command, "commands", {}).values()]
    own = {param.name for part in parts for param in part.params}
    return any("device" in inspect.signature(inspect.unwrap(part.callback or print)).parameters for part in parts) and (
        "device" not in own
    )


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_asks_the_host_or_refuses_its_name(name: str) -> None:
    assert takes_the_device(name) == (name not in cli.HOSTLESS)


@pytest.mark.parametrize(
    ("words", "cure"),
    [(["emulate"], "--socket PATH"), (["serve", "--quiet"], "--socket PATH"), (["demo"], "gpurt demo --device PATH"),
     (["partition", FILE], "gpurt partition FILE --device NUMBER"), (["sensitivity", FILE], "leave it out"),
     (["mask", "lint", "0xff"], "leave it out")],
)  # fmt: skip
def test_a_device_that_would_do_nothing_is_refused(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, words: list[str | Path], cure: str
) -> None:
    code, out, err = caller(capfd)("--device", tmp_path / "host", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--device" in err
    assert cure in err
    assert list(tmp_path.iterdir()) == []


def test_the_refusal_is_json_where_that_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = caller(capfd)("--device", "/none", "sensitivity", FILE, "--json")
    error = json.loads(out or err)["error"]
    assert (code, error["exit_code"]) == (2, 2)
    assert "--device" in error["message"]


def test_a_device_of_the_environment_is_for_the_commands_that_ask(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPURT_DEVICE", "/none")
    gpurt = caller(capfd)
    assert gpurt("choose", FILE)[0] == 0
    assert gpurt("status")[0] == 4


@pytest.mark.parametrize("words", [["--device", "", "status"], ["demo", "--device", ""]])
def test_an_empty_device_is_not_one_left_out(capfd: pytest.CaptureFixture[str], words: list[str]) -> None:
    code, out, err = caller(capfd)(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--device" in err
