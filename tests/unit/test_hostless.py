# SPDX-License-Identifier: GPL-2.0
"""A --device before a command that asks no host is refused: it would do nothing."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
from calls import caller

from pycontrol import cli
from pycontrol.commands import serve
from pycontrol.commands.options import Subcommand
from pycontrol.host.serve import Config
from pycontrol.machine import drivers

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "examples/minimal.toml"


def takes_the_device(name: str) -> bool:
    """Whether the command is given what --device names."""
    return "device" in inspect.signature(inspect.unwrap(cli.find_command(name).callback or print)).parameters


@pytest.mark.parametrize("name", cli.LEAVES)
def test_every_command_asks_the_host_or_refuses_its_name(capfd: pytest.CaptureFixture[str], name: str) -> None:
    """A command that runs into the missing host says so; the others refuse before they look at anything."""
    command = cli.find_command(name)
    assert isinstance(command, Subcommand)
    assert command.asks == takes_the_device(name)


def test_commands_ask_the_host() -> None:
    assert {name for name in cli.LEAVES if takes_the_device(name)} >= {"status", "set policy", "trace record", "run"}
    assert not takes_the_device("plan partitions")


@pytest.mark.parametrize(
    ("words", "cure"),
    [(["emulate"], "--socket PATH"), (["serve", "--quiet"], "--socket PATH"), (["demo"], "gpurt demo --device PATH"),
     (["plan", "partitions", FILE], "leave it out"), (["margins", FILE], "leave it out"),
     (["plan", "masks", "check", "0xff"], "leave it out")],
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
    code, out, err = caller(capfd)("--device", "/none", "margins", FILE, "--json")
    error = json.loads(out or err)["error"]
    assert (code, error["exit_code"]) == (2, 2)
    assert "--device" in error["message"]


def test_a_device_of_the_environment_is_for_the_commands_that_ask(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPURT_DEVICE", "/none")
    gpurt = caller(capfd)
    assert gpurt("plan", "modes", FILE)[0] == 0
    assert gpurt("status")[0] == 4


@pytest.mark.parametrize("words", [["--device", "", "status"], ["demo", "--device", ""]])
def test_an_empty_device_is_not_one_left_out(capfd: pytest.CaptureFixture[str], words: list[str]) -> None:
    code, out, err = caller(capfd)(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--device" in err


def test_a_host_of_agents_says_that_no_gpu_is_here(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[Config] = []
    monkeypatch.setattr(serve, "run_host", begun.append)
    monkeypatch.setattr(drivers.unpatched, "__defaults__", (tmp_path, frozenset()))
    assert "no program comes; 'gpurt emulate'" in caller(capfd)("serve")[2]
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    assert caller(capfd)("serve", "--gpus", "2") == (0, "", "")
    assert [one.what.partition(", ")[0] for one in begun] == [
        "agents of programs on GPU 0", "agents of programs on GPUs 0 to 1",
    ]  # fmt: skip
