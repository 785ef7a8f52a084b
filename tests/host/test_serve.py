# SPDX-License-Identifier: GPL-2.0
"""What hosts say when they start and end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from links import PATIENCE, SocketClient, eventually
from processes import StartHost, started

from analysis.model import DEFAULT_POLICY
from gpurt._gpurt import lib
from gpurt.enums import Overrun
from pycontrol import cli
from pycontrol.link.control import connect
from pycontrol.machine.placement import fifo_permitted


@pytest.mark.parametrize("command", ["emulate", "serve"])
def test_a_limit_of_users_is_a_field_and_a_number(command: str) -> None:
    (option,) = (one for one in cli.find_command(command).params if one.name == "limits")
    context = click.Context(cli.find_command(command))
    assert option.process_value(context, ()) == {}
    assert option.process_value(context, ("connections=2,memory=5", "calls=3,memory=6")) == {
        "connections": 2, "calls": 3, "memory": 6
    }  # fmt: skip
    for text in ("calls=0", "calls=-1", "calls=1e3", "memory", "files=3", "calls=3\n", "calls=3,,calls=4", ""):
        with pytest.raises(click.BadParameter):
            option.process_value(context, (text,))


def test_a_host_whose_starter_is_gone_ends(tmp_path: Path) -> None:
    """Nobody reads that it serves."""
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "pycontrol", "emulate", f"--socket={tmp_path / 'host.sock'}"]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=PATIENCE)
    os.close(writer)
    assert done.returncode == cli.NOBODY_READS
    assert not (tmp_path / "host.sock").exists()


#: Starts a host without the capability to raise threads, its own ones included.
WITHOUT_RIGHTS = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
less = ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"] if os.geteuid() == 0 else []
words = [*less, sys.executable, "-m", "pycontrol", *sys.argv[1:]]
os.execvp(words[0], words)
"""


def told(log: Path) -> str:
    """The log of a host after its start."""
    eventually(lambda: "serving" in log.read_text())
    return log.read_text()


@pytest.mark.parametrize("command", ["emulate", "serve"])
def test_hosts_start_with_the_policy_of_files_where_they_can_and_say_why_they_do_not(
    start_host: StartHost, command: str
) -> None:
    """Nothing more is said where the user named the policy."""
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        pytest.skip("needs setpriv, to act without a capability")
    why = f"policy segment (not {DEFAULT_POLICY}, which files are for that name none: neither this host nor its user"
    able = fifo_permitted(2 * lib.GPURT_NORMAL_DEFAULT)
    less = ("-c", WITHOUT_RIGHTS, command)
    cases = [(("-m", "pycontrol", command), None, "policy boosted," if able else why), (less, None, why)]
    cases += [(less, policy, f"policy {policy},") for policy in ("segment", "boosted")]
    for program, policy, words in cases:
        assert words in told(start_host(program=program, policy=policy).with_suffix(".log"))


def test_a_host_says_what_ends_with_it(tmp_path: Path) -> None:
    host = started(path := tmp_path / "host.sock")
    with connect(str(path)) as control, SocketClient(path) as client:
        client.begin()
        control.set_exempt(True, comm="Xorg")
        control.set_barred(True, comm="Xorg")
        control.set_budget(os.getpid(), 10**6, 10**9, Overrun.REPORT)
        control.set_priority(os.getpid(), 7)
        host.terminate()
        assert host.wait(PATIENCE) == 0
    said = "what `gpurt set` set ends with this host (rules: 2, budgets: 1, priorities: 1)"
    assert said in path.with_suffix(".log").read_text()


def test_a_host_that_was_set_nothing_says_nothing_at_its_end(tmp_path: Path) -> None:
    host = started(path := tmp_path / "host.sock")
    host.terminate()
    assert host.wait(PATIENCE) == 0
    assert path.with_suffix(".log").read_text().splitlines()[-1].startswith("gpurt: serving")


def test_a_host_starts_with_the_policy_of_its_taskset(start_host: StartHost, tmp_path: Path) -> None:
    text = '[platform]\ncpus = 1\npolicy = "lock-fifo"\nepsilon = "1us"\n'
    (file := tmp_path / "set.toml").write_text(text, encoding="utf-8")
    given = f"--taskset={file}"
    assert "policy lock-fifo," in told(start_host(given, policy=None).with_suffix(".log"))
    assert "policy segment," in told(start_host(given, policy="segment").with_suffix(".log"))
