# SPDX-License-Identifier: GPL-2.0
"""How a host tells the process that started it that clients may connect, and when it cannot."""

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


def serve(command: str, socket: Path, descriptor: str, *passed: int) -> subprocess.CompletedProcess[str]:
    """A host that is to end at once, because it cannot write to the descriptor."""
    words = [sys.executable, "-m", "pycontrol", command, f"--socket={socket}", f"--ready-fd={descriptor}"]
    return subprocess.run(words, capture_output=True, text=True, check=False, pass_fds=passed, timeout=200)


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


@pytest.mark.parametrize("command", ["emulate", "serve"])
def test_a_descriptor_that_is_not_open_is_named(tmp_path: Path, command: str) -> None:
    for number in ("3", "99", "-1", str(2**40)):  # 3: one of the host's own files would have it
        done = serve(command, tmp_path / "host.sock", number)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"gpurt: Invalid value for '--ready-fd': descriptor {number} is not open (see")
        assert done.stderr.count("\n") == 1


def test_a_descriptor_that_is_only_read_is_named(tmp_path: Path) -> None:
    with Path(os.devnull).open() as file:
        number = file.fileno()
        done = serve("emulate", tmp_path / "host.sock", str(number), number)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"descriptor {number} is not open for writing" in done.stderr


@pytest.mark.parametrize("command", ["emulate", "serve"])
def test_a_descriptor_that_nobody_reads_is_named(tmp_path: Path, command: str) -> None:
    """The process that would have read it is gone; stdout, which is read, is not blamed."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = serve(command, tmp_path / "host.sock", str(writer), writer)
    finally:
        os.close(writer)
    assert done.returncode == 3
    assert done.stderr.endswith(f"gpurt: --ready-fd: descriptor {writer} cannot be written: Broken pipe\n")
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
