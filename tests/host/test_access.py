# SPDX-License-Identifier: GPL-2.0
"""Users who may connect to a host, the answer to others, and files that may stand in the socket's place."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from links import PATIENCE
from processes import StartHost

from gpurt.errors import DeviceError
from pycontrol.host.endpoint import Access, Endpoint

GPURT = [sys.executable, "-m", "pycontrol"]
#: A user and a group that own nothing, and another such group.
NOBODY, GROUP, OTHER = 65534, 54321, 54322
SEGMENT = "import gpurt\nwith gpurt.Client() as client, gpurt.segment(client=client): print('ran')"
UNMANAGED = "import gpurt\nwith gpurt.segment(): print('ran')"

As = Callable[..., "subprocess.CompletedProcess[str]"]


def emulate(*options: str) -> subprocess.CompletedProcess[str]:
    """An emulator that is to end at once, because something is wrong with its options."""
    command = [*GPURT, "emulate", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    made = Path(tempfile.mkdtemp(prefix="gpurt-test-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def other(folder: Path) -> As:
    """Runs a command as another user, in a group that `group` names."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv, to act as another user")

    def run(*command: str, group: int = OTHER) -> subprocess.CompletedProcess[str]:
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={group}", "--clear-groups", "--inh-caps=-all", *command]
        environment = {**os.environ, "GPURT_DEVICE": str(folder / "host.sock"), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            user, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment, cwd="/"
        )

    if run(sys.executable, "-c", "import gpurt, pycontrol.cli").returncode:
        pytest.skip("other users may not read this checkout")
    return run


def test_another_user_is_told_who_may_open_the_host(start_host: StartHost, folder: Path, other: As) -> None:
    path = folder / "host.sock"
    start_host(f"--socket={path}")
    done = other(*GPURT, "status")
    assert done.returncode == 4
    assert done.stderr.startswith(f"gpurt: {path} is there, but only user root and group root may open it (mode 0660)")
    assert "--allow" in done.stderr
    assert done.stderr.count("\n") == 1
    findings = {entry["name"]: entry for entry in json.loads(other(*GPURT, "doctor", "--json").stdout)["findings"]}
    assert findings["host"]["status"] == "fail"
    assert str(path) in findings["host"]["text"]
    assert "--allow" in findings["host"]["cure"]
    done = other(sys.executable, "-c", SEGMENT)
    assert f"{path} is there" in done.stderr
    assert "unmanaged" not in done.stderr  # for an exception ends the program


def test_the_library_says_it_once_and_the_program_runs_on(
    start_host: StartHost, folder: Path, other: As, prefix_program: str
) -> None:
    path = folder / "host.sock"
    start_host(f"--socket={path}")
    done = other(prefix_program)
    assert (done.returncode, done.stdout) == (0, "-13 -13\n")
    assert done.stderr.startswith(f"gpurt: no GPU segment begins: {path} is there, but only user root and group root")
    assert done.stderr.count("\n") == 1


PROGRAM = """
#include <gpurt.h>
#include <stdio.h>
int main(void)
{
	int first = gpurt_segment_begin(NULL, 0, 0);

	printf("%d %d\\n", first, gpurt_segment_begin(NULL, 0, 0));
	return 0;
}
"""


@pytest.fixture
def prefix_program(folder: Path) -> str:
    """A C program that begins two segments and prints the results, compiled with the library's sources."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    root = Path(__file__).resolve().parents[2]
    (folder / "program.c").write_text(PROGRAM)
    sources = [folder / "program.c", *(root / "userlib").glob("*.c")]
    program = folder / "program"
    subprocess.run(["cc", f"-I{root}/userlib/include", *sources, "-pthread", "-o", program], check=True)
    return str(program)


def test_the_device_s_way_is_its_udev_rule(folder: Path, other: As) -> None:
    device = folder / "host.sock"  # where GPURT_DEVICE points to
    try:
        os.mknod(device, stat.S_IFCHR | 0o660, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this machine permits no device nodes")
    os.chown(device, 0, _group())
    device.chmod(0o660)
    done = other(sys.executable, "-c", SEGMENT)
    assert f"{device} is there, but only user root and group" in done.stderr
    assert "join that group, or change the device's udev rule" in done.stderr


def test_a_user_s_own_emulator_is_found_without_a_name(start_host: StartHost, tmp_path: Path) -> None:
    if Path("/dev/gpurt").exists() or Path("/run/gpurt/host.sock").exists():
        pytest.skip("this machine has a host in one of the usual places")
    (tmp_path / "gpurt").mkdir()
    start_host(f"--socket={tmp_path / 'gpurt/host.sock'}")
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    environment.pop("GPURT_DEVICE", None)
    for command in ([sys.executable, "-c", SEGMENT], [*GPURT, "status"]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
    environment["XDG_RUNTIME_DIR"] = "/" + "x" * 300  # too long for a socket's name
    command = [sys.executable, "-c", UNMANAGED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout == "ran\n"
    assert "no host" in done.stderr


def test_a_folder_that_may_not_be_entered_is_named(start_host: StartHost, folder: Path, other: As) -> None:
    start_host(f"--socket={folder / 'host.sock'}")
    folder.chmod(0o700)
    done = other(*GPURT, "status")
    assert done.returncode == 4
    assert "may not enter its folder" in done.stderr
    assert done.stderr.count("\n") == 1


def test_members_of_the_group_may_use_the_host_and_not_change_it(
    start_host: StartHost, folder: Path, other: As
) -> None:
    """The module's device allows the same to a group that udev gives it to."""
    start_host(f"--socket={folder / 'host.sock'}", "--allow=nobody")
    assert other(*GPURT, "status", group=0).returncode == 4
    (folder / "more").mkdir()
    path = folder / "more/host.sock"
    start_host(f"--socket={path}", f"--allow={_group()}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert other(*GPURT, "--device", str(path), "status", group=_group()).returncode == 0
    done = other(*GPURT, "--device", str(path), "set", "policy", "job", group=_group())
    assert done.returncode == 5
    assert done.stderr == "gpurt: this needs CAP_SYS_NICE: run as root or as the host's own user\n"
    done = other(*GPURT, "--device", str(path), "status")
    assert done.returncode == 4
    assert "join that group, or start the host with --allow" in done.stderr


def _group() -> int:
    """A group that this machine knows, other than root's."""
    import grp

    return next(entry.gr_gid for entry in grp.getgrall() if entry.gr_gid)


def test_everybody_may_open_a_host_that_allows_it(start_host: StartHost, folder: Path, other: As) -> None:
    start_host(f"--socket={folder / 'host.sock'}", "--allow=everybody")
    assert other(sys.executable, "-c", SEGMENT).stdout == "ran\n"


def test_a_user_with_too_many_connections_is_told_so(start_host: StartHost, folder: Path, other: As) -> None:
    start_host(f"--socket={folder / 'host.sock'}", "--allow=everybody", "--user-limit=connections=2")
    made = "import gpurt\nmade = [gpurt.Client() for _ in range({})]\nprint('made')"
    assert other(sys.executable, "-c", made.format(2)).stdout == "made\n"
    done = other(sys.executable, "-c", made.format(3))
    assert "the host permits this user no more connections; end programs, or start it with" in done.stderr
    held = "import gpurt, os\nfrom pycontrol.link.control import connect\n"
    held += "made = [gpurt.Client() for _ in range(2)]\n"
    held += "try: connect(os.environ['GPURT_DEVICE']).status()\nexcept gpurt.errors.DeviceError as error: print(error)"
    assert other(sys.executable, "-c", held).stdout.startswith("the host permits this user no more connections; end")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--allow=no-such-group"], "there is no group 'no-such-group'"),
        (["--allow=4294967295"], "there is no group"),
        (["--allow="], "there is no group"),
    ],
)
def test_a_wrong_group_is_one_line(tmp_path: Path, options: list[str], words: str) -> None:
    done = emulate(f"--socket={tmp_path / 'host.sock'}", *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_group_that_the_user_is_not_in_is_refused(folder: Path, other: As) -> None:
    folder.chmod(0o777)
    done = other(*GPURT, "emulate", f"--socket={folder / 'own.sock'}", "--allow=root")
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1
    assert "--allow" in done.stderr
    assert not (folder / "own.sock").exists()


def test_a_user_without_a_folder_for_sockets_is_told_what_to_name(other: As, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    done = other(*GPURT, "emulate")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.endswith("name a socket with --socket, and in GPURT_DEVICE for programs and other commands\n")
    assert done.stderr.count("\n") == 1


def test_a_folder_is_not_made(tmp_path: Path) -> None:
    done = emulate(f"--socket={tmp_path / 'none/host.sock'}")
    assert done.returncode == 4
    assert done.stderr == (
        f"gpurt: {tmp_path}/none/host.sock: there is no folder {tmp_path}/none; make it, or name another socket\n"
    )
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_permissions_do_not_depend_on_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        endpoint = Endpoint(tmp_path / "host.sock", Access(0o620, os.getegid()))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "host.sock").stat().st_mode) == 0o620
    endpoint.close()
    assert not (tmp_path / "host.sock").exists()


def test_nobody_connects_before_the_permissions_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "host.sock"
    change = os.chmod
    tried = []

    def connect_first(*arguments: object) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as early, pytest.raises(ConnectionRefusedError):
            early.connect(str(path))
        tried.append(path)
        change(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "chmod", connect_first)
    endpoint = Endpoint(path, Access())
    assert tried
    endpoint.close()


@pytest.mark.parametrize("target", ["victim", "nothing"])
def test_what_is_no_socket_stays(tmp_path: Path, target: str) -> None:
    victim, link = tmp_path / "victim", tmp_path / "host.sock"
    victim.write_text("mine")
    victim.chmod(0o600)
    link.symlink_to(tmp_path / target)
    for path, words in ((link, "symbolic link"), (victim, "no socket"), (tmp_path, "no socket")):
        with pytest.raises(DeviceError, match=words):
            Endpoint(path, Access(0o666))
    assert link.is_symlink()
    assert victim.read_text() == "mine"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600


def test_a_link_to_a_socket_is_not_followed(tmp_path: Path) -> None:
    with contextlib.closing(Endpoint(tmp_path / "real.sock", Access(0o600))):
        (tmp_path / "host.sock").symlink_to(tmp_path / "real.sock")
        with pytest.raises(DeviceError, match="symbolic link"):
            Endpoint(tmp_path / "host.sock", Access(0o666))
        assert stat.S_IMODE((tmp_path / "real.sock").stat().st_mode) == 0o600


def test_a_link_that_takes_the_socket_s_place_at_once_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the owner of the folder can do it, right after the host has bound its socket."""
    path, victim = tmp_path / "host.sock", tmp_path / "victim"
    victim.write_text("mine")
    victim.chmod(0o600)
    open_file = os.open

    def swap_first(name: Path, flags: int) -> int:
        path.unlink()
        path.symlink_to(victim)
        return open_file(name, flags)

    monkeypatch.setattr(os, "open", swap_first)
    with pytest.raises(DeviceError, match="something else"):
        Endpoint(path, Access(0o666, os.getegid()))
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600


def test_a_host_that_ends_leaves_what_took_its_socket_s_place(tmp_path: Path) -> None:
    path = tmp_path / "host.sock"
    first = Endpoint(path, Access())
    path.unlink()
    second = Endpoint(path, Access())
    first.close()
    assert path.is_socket()
    second.close()
    assert not path.exists()
