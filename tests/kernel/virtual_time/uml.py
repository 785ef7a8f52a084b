# SPDX-License-Identifier: GPL-2.0
"""Executes cases in user-mode Linux."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tasksets import Case, Completions

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
MISSING = 3
ONE = """
rmmod gpurt 2>/dev/null
echo "case {name}"
insmod /run/gpurt.ko {parameters} && $GPURT_OUT/runner $GPURT_OUT/{name} || exit 1
"""


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == MISSING:
        pytest.skip(done.stderr.strip())
    return done


@dataclass(frozen=True)
class Guest:
    """A folder with what is needed in the guest: the runner and the helper module."""

    folder: Path

    @classmethod
    def build(cls, folder: Path) -> Guest:
        """Compiles it; skips where the machine lacks something."""
        kernel = _run(ROOT / "scripts/kernel", "uml")
        assert kernel.returncode == 0, kernel.stderr
        copy = shutil.copytree(HERE / "burn", folder / "burn")
        compiler = "gcc-12" if shutil.which("gcc-12") else "gcc"
        build = Path(kernel.stdout.strip()) / "build"
        made = _run("make", "-C", build, f"M={copy}", "ARCH=um", f"CC={compiler}", "W=1", "modules")
        assert made.returncode == 0, made.stdout + made.stderr
        assert str(copy) not in made.stderr, made.stderr  # a warning of ours
        share = folder / "share"
        share.mkdir()
        shutil.copy(copy / "burn.ko", share)
        flags = ["-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/userlib/include"]
        done = _run("gcc", "-static", *flags, HERE / "runner.c", "-o", share / "runner")
        assert done.returncode == 0, done.stderr
        return cls(share)

    def execute(self, script: str, *options: str) -> str:
        """The output of a shell script in the guest."""
        (self.folder / "script").write_text(script)
        done = _run(ROOT / "scripts/uml-run", "--exact", "--with", self.folder, *options, "sh", "/run/out/script")
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-6000:]}"
        return done.stdout

    def run(self, cases: Sequence[Case], *options: str) -> dict[str, Completions]:
        """When each job completed, by case; in one machine, the module loaded for each."""
        return completions(self.output(cases, *options))

    def output(self, cases: Sequence[Case], *options: str) -> str:
        """What the runner printed, case after case."""
        script = "insmod $GPURT_OUT/burn.ko || exit 1\n"
        for case in cases:
            (self.folder / case.name).write_text(case.description())
            script += ONE.format(name=shlex.quote(case.name), parameters=case.module_parameters())
        return self.execute(script, *options)


def completions(output: str) -> dict[str, Completions]:
    """The runner's output as numbers."""
    cases: dict[str, Completions] = {}
    for line in output.splitlines():
        words = line.split()
        if words[0] == "case":
            current = cases.setdefault(words[1], {})
        elif words[0] != "base":
            current.setdefault(words[0], []).append(int(words[3]))
    return cases
