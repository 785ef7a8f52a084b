# SPDX-License-Identifier: GPL-2.0
"""Executes cases in user-mode Linux."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernels import HERE, explain, helper_module, run_script, static_program
from tasksets import Case, Completions

ONE = """
sh /run/load-gpurt none
echo "case {name}"
sh /run/load-gpurt /run {parameters} && $GPURT_OUT/runner $GPURT_OUT/{name} || exit 1
"""


@dataclass(frozen=True)
class Guest:
    """A folder with what is needed in the guest: the runner and the helper module."""

    folder: Path

    @classmethod
    def build(cls, folder: Path) -> Guest:
        """Compiles it; skips where the machine lacks something."""
        shutil.copy(helper_module(HERE / "virtual_time/burn", "uml"), folder)
        shutil.copy(static_program(HERE / "virtual_time/runner.c"), folder / "runner")
        return cls(folder)

    def execute(self, script: str, *options: str) -> str:
        """The output of a shell script in the guest."""
        (self.folder / "script").write_text(script)
        done = run_script("uml-run", "--exact", "--with", self.folder, *options, "sh", "/run/out/script")
        assert done.returncode == 0, explain(done)
        return done.stdout

    def run(self, cases: Sequence[Case], *options: str) -> dict[str, Completions]:
        """When each job completed, by case; in one machine, the module loaded for each."""
        return completions(self.output(cases, *options))

    def output(self, cases: Sequence[Case], *options: str) -> str:
        """The runner's output, case after case."""
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
