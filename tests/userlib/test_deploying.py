# SPDX-License-Identifier: GPL-2.0
"""docs/deploying.md: the drop-in for services, and programs in namespaces of their own."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from library import PATIENCE, ROOT

from gpurt.enums import Tier
from pycontrol import cli
from pycontrol.link.control import connect
from pycontrol.machine.placement import fifo_permitted

FOLDER, PAGE = ROOT / "examples/systemd", ROOT / "docs/deploying.md"
NAMESPACES = ["unshare", "--pid", "--fork", "--net", "--mount-proc"]
#: Begins a segment, says what its own id is, and waits to be told to end.
PROGRAM = """
import gpurt, os, sys
with gpurt.segment():
    print(os.getpid(), flush=True)
    sys.stdin.readline()
"""


def settings() -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(FOLDER / "50-gpurt.conf")
    return dict(parser["Service"])


def variables() -> dict[str, str]:
    lines = (FOLDER / "detector.env").read_text().splitlines()
    return dict(re.findall(r"^(\w+)=(.*)$", "\n".join(lines), re.MULTILINE))


def command(pid: int, priority: str) -> list[str]:
    """The command that systemd executes when the service's program is `pid`: systemd knows both forms of a variable."""
    known = {"GPURTPriority": priority, "MAINPID": str(pid)}
    words = shlex.split(settings()["ExecStartPost"].removeprefix("+"))
    return [re.sub(r"\$\{?(\w+)\}?", lambda found: known[found[1]], word) for word in words]


@pytest.mark.skipif(not shutil.which("chrt"), reason="needs chrt")
@pytest.mark.skipif(not fifo_permitted(20), reason="SCHED_FIFO is not permitted")
def test_the_drop_in_gives_every_thread_the_priority() -> None:
    threads = "import threading, sys; threading.Thread(target=sys.stdin.read).start(); print(flush=True)"
    process = subprocess.Popen([sys.executable, "-c", threads], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    try:
        tids = [int(tid) for tid in os.listdir(f"/proc/{process.pid}/task")]
        assert len(tids) == 2
        subprocess.run(command(process.pid, variables()["GPURTPriority"]), check=True)
        for tid in tids:
            assert os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO
            assert os.sched_getparam(tid).sched_priority == 20
        for wrong in ("", "0", "100", "high"):  # the service does not start then
            assert subprocess.run(command(process.pid, wrong), check=False, capture_output=True).returncode
    finally:
        process.communicate()


UNITS = sorted(FOLDER.glob("*.service"))
EXEC = re.compile(r"^ExecStart=/usr/bin/gpurt (.*)$", re.MULTILINE)


def words_of(unit: Path) -> list[str]:
    """What a unit has `gpurt` do; nothing is in its variable OPTIONS."""
    (words,) = EXEC.findall(unit.read_text())
    return shlex.split(words.removesuffix(" $OPTIONS"))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_understands_the_units_of_hosts_and_watchers(unit: Path, tmp_path: Path) -> None:
    (steps,) = re.findall(r"^for unit in .*?^done$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    script = f'sudo() {{ "$@"; }}\n{steps.replace("/etc/systemd/system", str(tmp_path))}'
    subprocess.run(["bash", "-euc", script], cwd=ROOT, check=True)
    text = (tmp_path / unit.name).read_text()
    (command,) = re.findall(r"^ExecStart=(\S+)", text, re.MULTILINE)
    hidden = ["/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"]  # by ProtectHome= and PrivateTmp=
    assert not any(command.startswith(folder) for folder in hidden)
    assert f"-m venv {command.removesuffix('/bin/gpurt')} " in PAGE.read_text()
    there = f"{Path(sys.executable).parent}/gpurt"
    text = re.sub(r"^Documentation=.*\n", "", text.replace(command, there), flags=re.MULTILINE)
    (tmp_path / unit.name).write_text(text)
    verify = ["systemd-analyze", "verify", tmp_path / unit.name]
    assert subprocess.run(verify, capture_output=True, text=True, check=False).stderr == ""
    first, *rest = words_of(unit)
    assert cli.find_command(first).make_context(first, rest).args == []
    assert re.search(rf"man:gpurt-{first}\(1\)", unit.read_text())


def test_the_unit_of_a_host_tells_systemd_when_it_serves(tmp_path: Path) -> None:
    where = str(tmp_path / "host.sock")
    words = [where if one == "/run/gpurt/host.sock" else one for one in words_of(FOLDER / "gpurt-serve.service")]
    assert where in words
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        process = subprocess.Popen([sys.executable, "-m", "pycontrol", *words],
                                   env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")})  # fmt: skip
        try:
            assert manager.recv(99) == b"READY=1"
            with connect(where) as control:
                assert [one.tier for one in control.status()] == [Tier.UNPATCHED]
        finally:
            process.terminate()
    assert process.wait(PATIENCE) == 0


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_understands_the_drop_in(tmp_path: Path) -> None:
    folder = tmp_path / "detector.service.d"
    folder.mkdir()
    (tmp_path / "detector.service").write_text("[Service]\nExecStart=/bin/true\n")

    def verify() -> str:
        environment = {**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:", "SYSTEMD_LOG_LEVEL": "warning"}
        done = subprocess.run(["systemd-analyze", "verify", tmp_path / "detector.service"], env=environment,
                              capture_output=True, text=True, check=False)  # fmt: skip
        return "\n".join(line for line in done.stderr.splitlines() if "50-gpurt.conf" in line)

    shutil.copy(FOLDER / "50-gpurt.conf", folder)
    assert verify() == ""
    (folder / "50-gpurt.conf").write_text("[Service]\nGPURTPriority=20\n")
    assert "GPURTPriority" in verify()


def test_a_program_in_namespaces_of_its_own_is_a_client(emulator: Path) -> None:
    """As in a container: the host knows it by its id outside."""
    if not shutil.which("unshare") or subprocess.run([*NAMESPACES, "true"], check=False).returncode:
        pytest.skip("namespaces are not permitted")
    environment = {**os.environ, "GPURT_DEVICE": str(emulator)}
    process = subprocess.Popen([*NAMESPACES, sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, env=environment)  # fmt: skip
    assert process.stdout
    try:
        inside = int(process.stdout.readline())
        with connect(str(emulator)) as control:
            (client,) = control.clients()
            assert client.depth == 1
        (outside,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert (inside, client.pid) == (1, int(outside))
    finally:
        process.communicate("\n", timeout=PATIENCE)
    assert process.returncode == 0
