# SPDX-License-Identifier: GPL-2.0
"""scripts/mutate: the changes that it makes, and what it says of those that no test notices."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/mutate"


@pytest.fixture(scope="module")
def mutate() -> Any:
    loader = SourceFileLoader("mutate", str(SCRIPT))
    spec = spec_from_loader("mutate", loader)
    assert spec
    module = module_from_spec(spec)
    sys.modules["mutate"] = module  # dataclasses look there
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "text", "changed"),
    [
        ("a.py", "x = a < b and not c", {"x = a <= b and not c", "x = a < b or not c"}),
        ("a.py", "é = min(a, 3) - 1", {"é = max(a, 3) - 1", "é = min(a, 4) - 1", "é = min(a, 3) + 1",
                                       "é = min(a, 3) - 2"}),
        ("a.py", "if a is not None:\n    f(b)", {"if a is None:\n    f(b)", "if not (a is not None):\n    f(b)",
                                                "if a is not None:\n    pass"}),
        ("a.py", "x: list[int] = [True]  # a < b", {"x: list[int] = [False]  # a < b"}),
        ("a.c", "\tif (a->b < -c) /* d < e */\n", {"\tif (a->b <= -c) /* d < e */\n",
                                                  "\tif (!a->b < -c) /* d < e */\n"}),
        ("a.c", "#if A < 1\n\tf(x);\n\treturn f(x);\n", {"#if A < 1\n\t;\n\treturn f(x);\n"}),
        ("a.c", "\tx = -y;\n", set()),
        ("a.c", "\tx = \"a < b\" + 07u + 12;\n", {"\tx = \"a < b\" + 07u - 12;\n", "\tx = \"a < b\" + 07u + 13;\n"}),
    ],
)  # fmt: skip
def test_a_change_is_made_in_one_place_of_the_code(
    mutate: Any, tmp_path: Path, name: str, text: str, changed: set[str]
) -> None:
    """No comment, no string, no condition of the preprocessor and no sign is changed."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert {one.applied() for one in mutate.mutants(path)} == changed


def test_the_tests_of_a_change_are_the_nearest_and_then_folders(mutate: Any) -> None:
    """The nearest reach the file by the fewest imports, also in C; those that name its function come first."""
    for path, first in (
        ("pycontrol/output/progress.py", "tests/unit/test_progress.py"),
        ("pycontrol/machine/topology.py", "tests/unit/test_topology.py"),
        ("kmod/core/budget.c", "tests/core/test_budget.py"),
        ("userlib/preload/nvidia_objects.c", "tests/preload/test_preload_objects.py"),
    ):
        found = mutate.suites(mutate.mutants(ROOT / path)[0])
        assert found[0][0] == first
        assert all((ROOT / part).exists() for suite in found for part in suite)
        folders = mutate.folders(ROOT / path)
        assert [suite for suite in found if suite[0] in folders] == [[one] for one in folders] == found[2:]
        assert mutate.suites(mutate.mutants(ROOT / path)[0], also_folders=False) == found[:2]


@pytest.mark.parametrize(
    ("path", "function", "first"),
    [
        ("userlib/preload/preload.c", "preload_check_chain", "tests/preload/test_preload_chain.py"),
        ("userlib/preload/kfd_mask.c", "splits_pairs", "tests/preload/test_preload_kfd.py"),
        ("userlib/units/sbeet_pass.c", "sort_ready", "tests/core/test_units.py"),
        ("analysis/rta/wakeups.py", "with_wakeups", "tests/analysis/test_wakeups.py"),
    ],
)  # fmt: skip
def test_among_tests_as_near_as_each_other_those_with_the_words_of_the_function_come_first(
    mutate: Any, path: str, function: str, first: str
) -> None:
    change = next(one for one in mutate.mutants(ROOT / path) if function in mutate.entries(one))
    assert first in mutate.near(change)[: mutate.NEAREST]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", "def f():\n    _h()\n\n\ndef _h(a,\n      b):\n    return a < b\n\n\ndef g():\n    f()\n"),
        ("a.c", "static int _h(int a,\n\tint b)\n{\n\treturn a < b;\n}\n\n"
                "int f(int a)\n{\n\treturn _h(a, a);\n}\n\nint g(int a)\n{\n\treturn f(a);\n}\n"),
    ],
)  # fmt: skip
def test_the_function_of_a_change_is_found_and_what_calls_it_in_its_file(
    name: str, text: str, mutate: Any, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    found = [mutate.entries(one) for one in mutate.mutants(tmp_path / name)]
    assert {"_h", "f"} in found
    assert all("g" not in one for one in found if "_h" in one)


def test_a_function_inside_of_another_is_a_part_of_it_and_a_method_none_of_its_class(
    mutate: Any, tmp_path: Path
) -> None:
    text = "def f():\n    def g():\n        return 1\n\n\nclass A:\n    def m():\n        return 2\n"
    (tmp_path / "a.py").write_text(text)
    assert [mutate.entries(one) for one in mutate.mutants(tmp_path / "a.py")] == [{"f"}, {"m"}]


def test_a_file_without_functions_has_changes_too(mutate: Any, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("A = 1 < 2\n")
    found = [mutate.entries(one) for one in mutate.mutants(tmp_path / "a.py")]
    assert found
    assert not any(found)


def worktrees() -> str:
    return subprocess.run(["git", "worktree", "list"], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_a_source_without_tests_is_refused() -> None:
    done = subprocess.run([SCRIPT, "kmod/drv"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no folder has the tests of kmod/drv/" in done.stderr


def test_what_no_test_notices_is_said(tmp_path: Path) -> None:
    """The tests of prose know nothing of the changed file.  The working tree stays as it is."""
    path = ROOT / "pycontrol/start.py"
    before = path.read_text(encoding="utf-8")
    command = [str(SCRIPT), "--count", "1", "--tests", "tests/unit/test_prose.py", "pycontrol/start.py"]
    place = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=place)
    assert done.returncode == 1, done.stderr
    assert "pycontrol/start.py:" in done.stdout
    assert "SURVIVED" in done.stdout
    assert done.stdout.endswith("0 of 1 killed (0 %)\n")
    assert path.read_text(encoding="utf-8") == before
    assert str(tmp_path) not in worktrees()
