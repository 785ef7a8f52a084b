# SPDX-License-Identifier: GPL-2.0
"""The rules about processes (kmod/rules.c), in user space: adapter/rules.c."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from trees import ROOT

HARNESS = ROOT / "tests/patches/adapter/rules.c"
#: What each of these breaks is noticed: a line of the module, and what it becomes.
MUTANTS = {
    "what others read is freed": ("call_rcu(&rule->rcu, rule_free);", "rule_free(&rule->rcu);"),
    "who reads keeps others from changing rules": (
        "rcu_read_lock();\n\tlist_for_each_entry_rcu(rule, &rules, node) {",
        "rcu_read_lock();\n\tmutex_lock(&rules_lock);\n\tlist_for_each_entry_rcu(rule, &rules, node) {",
    ),
    "a long path is nobody's": (
        "GPURT_CGROUP_START) < 0)", "GPURT_CGROUP_START) >= GPURT_CGROUP_START)",
    ),
    "a path is cut where the longest rule ends": ("(GPURT_CGROUP_LEN + 1)", "(GPURT_CGROUP_LEN)"),
    "a change is not told": ("rules_changes + 1 ?: 1", "1"),
    "the dead are told of": ("|| is_dead(rule))", ")"),
}  # fmt: skip


def rules() -> str:
    """The code that runs here."""
    texts = [(ROOT / "kmod" / name).read_text() for name in ("rules.h", "rules.c")]
    return '#include "uapi/gpurt.h"\n' + "\n".join(re.sub(r"^#include .*\n", "", text, flags=re.M) for text in texts)


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    if not shutil.which("gcc"):
        pytest.skip("needs a C compiler (gcc)")
    (folder / "rules.inc").write_text(code)
    flags = ["-std=gnu11", "-g", "-O0", "-Wall", "-Werror", "-Wno-unused", "-fsanitize=address,undefined"]
    subprocess.run(["gcc", *flags, f"-I{folder}", f"-I{ROOT}/kmod", HARNESS, "-o", folder / "rules"], check=True)
    return subprocess.run([folder / "rules"], capture_output=True, text=True)


def test_rules_are_read_while_they_change(tmp_path: Path) -> None:
    done = run(rules(), tmp_path)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr[-3000:]


@pytest.mark.slow(0.2)
def test_planted_bugs_are_found(tmp_path: Path) -> None:
    code = rules()
    for name, (old, new) in MUTANTS.items():
        assert code.count(old) == 1, name
        assert run(code.replace(old, new), tmp_path).returncode != 0, name
