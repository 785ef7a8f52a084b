# SPDX-License-Identifier: GPL-2.0
"""Ctrl-C while a command starts: no traceback, and exit code 130."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pycontrol.cli import LEAVES

ROOT = Path(__file__).resolve().parents[2]
MINIMAL = str(ROOT / "examples/minimal.toml")

#: Runs the command line as the installed script does.  SIGINT comes in the middle of the import with this number, of
#: those from pycontrol.cli on.
IMPORTING = """
import os, signal, sys
class Finder:
    left, counting = int(sys.argv.pop(1)), False
    def find_spec(self, name, *_):
        self.counting = self.counting or name == "pycontrol.cli"
        self.left -= self.counting
        if not self.left:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from pycontrol.start import main
main()
"""
#: The same without that import; it says when it begins.
STARTING = """
import os, signal
from pycontrol.signals import interrupt
from pycontrol.start import main
signal.signal(signal.SIGINT, interrupt)
try:
    os.write(1, b".")
except KeyboardInterrupt:  # on a busy machine it comes before main() is called
    os._exit(130)
main()
"""


#: Runs the script as it is installed.  SIGINT comes before it has imported anything of ours.
SCRIPT = """
import os, runpy, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == "pycontrol":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def interrupted_at(number: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", IMPORTING, str(number), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", LEAVES)
def test_an_import_is_interrupted_quietly(name: str) -> None:
    done = interrupted_at(random.randint(1, 30), *name.split(), "--help")
    assert (done.returncode, done.stderr) == (130, ""), done.stderr
    assert done.stdout == ""


def test_an_import_inside_a_command_is_interrupted_quietly() -> None:
    """Analyses are imported when the command runs, among them compiled modules."""
    for number in random.Random(1).sample(range(60, 130), 6):
        done = interrupted_at(number, "analyze", MINIMAL)
        assert (done.returncode, done.stderr) == (130, ""), done.stderr


def test_the_script_itself_is_interrupted_quietly() -> None:
    command = [sys.executable, "-c", SCRIPT, str(ROOT / "pycontrol/bin/gpurt"), "help"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_a_checkout_that_was_moved_says_so_in_one_line() -> None:
    """The .venv has links to where the checkout was: python finds nothing of ours, or what lies beside the command."""
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    for start, name, there in (
        ([ROOT / "pycontrol/bin/gpurt"], "pycontrol", [packages]),
        (["-m", "pycontrol"], "gpurt", [ROOT, packages]),
    ):
        done = subprocess.run(
            [sys.executable, "-S", *start, "help"], capture_output=True, text=True, check=False, cwd="/",
            env={"PYTHONPATH": os.pathsep.join(map(str, there))},
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1), done.stderr
        assert done.stderr.startswith(f"gpurt: no package {name}: ")
        assert "scripts/setup" in done.stderr


def test_setup_installs_nothing_for_a_python_that_is_not_there_or_too_old(tmp_path: Path) -> None:
    """Whatever it would install is a program that leaves a mark."""
    mark, old = tmp_path / "installed", tmp_path / "python3.8"
    for name, text in (("apt-get", f"touch {mark}"), (old.name, '[ $1 = -c ] && exit 1; echo Python 3.8.10')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    for python, said in ((tmp_path / "none", "there is no program"), (old, "Python 3.8.10 is too old")):
        env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "GPURT_PYTHON": str(python)}
        done = subprocess.run([ROOT / "scripts/setup"], env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, said in done.stderr, mark.exists()) == (1, True, False), done.stderr


def test_ctrl_c_at_any_instant_gives_no_traceback() -> None:
    for _ in range(10):
        command = [sys.executable, "-c", STARTING, "analyze", "/nonexistent"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stderr
            process.stdout.read(1)
            time.sleep(random.uniform(0.001, 0.2))
            process.send_signal(signal.SIGINT)
            err = process.stderr.read().decode()
        assert process.returncode in (130, 3), err
        assert "Traceback" not in err


def test_a_caller_that_ignores_sigint_is_obeyed() -> None:
    """A shell starts programs in the background with SIGINT ignored."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING, "20", "help"], capture_output=True, check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
