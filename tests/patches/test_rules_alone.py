# SPDX-License-Identifier: GPL-2.0
"""The rules about processes (kmod/base/rules.c), in user space: adapter/rules.c."""

from __future__ import annotations

from pathlib import Path

import pytest
from alone import code_of, expect_notice, run

#: Mutants that must be noticed, by what each breaks: a line of the module, and what it becomes.
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
    return code_of("base/rules.h", "base/rules.c")


def test_rules_are_read_while_they_change(tmp_path: Path) -> None:
    done = run("rules", rules(), tmp_path)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr[-3000:]


@pytest.mark.slow(0.2)
def test_planted_bugs_are_found(tmp_path: Path) -> None:
    expect_notice("rules", rules(), MUTANTS, tmp_path)
