"""Runs scripts/check-core, which proves the core with cbmc, and scripts/fuzz-core for two seconds."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from native_build import ROOT, SANITIZE, compile_program, copy_tree


@pytest.mark.slow(2)
@pytest.mark.timeout(3600)
def test_cbmc_proves_the_core() -> None:
    run = subprocess.run([ROOT / "scripts/check-core"], capture_output=True, text=True, check=False)
    if run.returncode == 3:
        pytest.skip(run.stderr.strip().splitlines()[-1])
    assert run.returncode == 0, run.stdout + run.stderr
    assert "NOT" not in run.stdout
    assert run.stdout.count("proved: ") == (31 if os.environ.get("GPURT_LONG") else 9)
    assert run.stdout.endswith("planted bugs found\n")


def test_the_fuzzer_finds_nothing_in_two_seconds(tmp_path: Path) -> None:
    run = subprocess.run(
        [ROOT / "scripts/fuzz-core", "2", "1"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert not list(tmp_path.glob("crash-*"))


def test_the_fuzzer_finds_a_planted_bug_and_repeats_it(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path / "tree")
    policy = tree / "kmod/core/sched.c"
    text = policy.read_text(encoding="utf-8")
    right = "	c->hint = 0;\n	if (e != c) {\n"
    assert text.count(right) == 1
    policy.write_text(text.replace(right, "	if (e != c) {\n"), encoding="utf-8")
    sources = [tree / f"tests/core/native/{name}.c" for name in ("fuzz", "world", "model")]
    sources += [tree / f"kmod/core/{name}.c" for name in ("sched", "boost", "queue", "budget", "group")]
    fuzz = compile_program(tmp_path / "fuzz", sources, SANITIZE)
    found = subprocess.run([fuzz, "500", "7"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert found.returncode == 1, found.stdout
    again = subprocess.run([fuzz, "crash-7"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert again.returncode == 1
    reason = re.compile(r"event \d+: c->own == f->own && c->hint == f->hint")
    assert reason.match(found.stderr)
    assert reason.match(again.stderr)
