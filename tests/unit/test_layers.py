# SPDX-License-Identifier: GPL-2.0
"""Calls and includes between the rooms of kmod/ run down only, and scripts/check-layers finds one that does not."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ModuleType("check_layers")
SCRIPT.__file__ = str(ROOT / "scripts/check-layers")
exec(compile((ROOT / "scripts/check-layers").read_text(), "check-layers", "exec"), SCRIPT.__dict__)


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the script over a copy of kmod/."""
    return subprocess.run([ROOT / "scripts/check-layers", folder], capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the module's sources."""
    shutil.copytree(ROOT / "kmod", tmp_path / "kmod", ignore=shutil.ignore_patterns("patches", "tests", "*.o"))
    return tmp_path / "kmod"


def test_everything_runs_down() -> None:
    done = check(ROOT / "kmod")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 of them up; circles: 0" in done.stdout
    assert re.search(r"^Python: \d{3} arrows between rooms; circles: 0$", done.stdout, re.M)


def test_rooms_of_python_that_import_each_other_are_found(tmp_path: Path) -> None:
    """Also inside a function; the files of one room may import each other."""
    for name, text in {
        "pycontrol/one/a.py": "from pycontrol.one import b\n", "pycontrol/one/b.py": "import pycontrol.two.c\n",
        "pycontrol/two/c.py": "def f():\n    from pycontrol.one import a\n", "pycontrol/__init__.py": "",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = SCRIPT.imports(tmp_path)
    assert SCRIPT.circles(found) == [["pycontrol.one", "pycontrol.two"]]
    assert not SCRIPT.report_imports(found)


def test_names_with_several_homes_are_counted() -> None:
    named = [("MOST", "a.py", "1"), ("MOST", "b.c", "2"), ("LONG", "a.py", "1"), ("LONG", "c.py", "1"), ("A", "a", "")]
    assert (SCRIPT.shared(named, several=True), SCRIPT.shared(named, several=False)) == (1, 2)
    found = SCRIPT.counts(ROOT)
    assert found["lines"] > found["product lines"] > found["product lines for papers only"] > 0


@pytest.mark.parametrize(("module", "good"), [("experiment_bounds", True), ("analyze", False)])
def test_only_experiments_import_papers(tmp_path: Path, module: str, good: bool) -> None:
    for name, text in ((f"pycontrol/commands/{module}.py", "from analysis.papers import registry\n"),
                       ("analysis/papers/registry.py", "")):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert SCRIPT.report_imports(SCRIPT.imports(tmp_path)) is good


@pytest.mark.parametrize(
    ("file", "planted", "said"),
    [
        ("decide/gate.c", "static void planted(void) { gpurt_client_put(0); gpurt_client_end(0); }\n",
         "up  decide/gate -> clients/decisions: gpurt_client_end"),
        ("base/looks.c", "void *planted(void) { return gpurt_file_put; }\n",
         "up  base/looks -> state/file: gpurt_file_put"),
        ("state/file.h", '#include "decide/decide.h"\n', "up  state/file -> decide/decide: decide/decide.h"),
        ("state/file.h", "static inline int planted(void)\n{\n\treturn gpurt_job_can_notify();\n}\n",
         "up  state/file -> decide/job: gpurt_job_can_notify"),
        ("state/boost.c", "void planted(void) { gpurt_boost_copied(0); }\n",
         "circle  state/boost, state/boost_calls"),
        ("other.c", "int planted(void) { return 0; }\n", "no room of the map has other"),
    ],
)  # fmt: skip
def test_planted_faults_are_found(copy: Path, file: str, planted: str, said: str) -> None:
    with (copy / file).open("a") as text:
        text.write(planted)
    done = check(copy)
    assert done.returncode == 1
    assert said in done.stdout


def test_what_only_names_a_function_is_no_call(copy: Path) -> None:
    with (copy / "base/looks.c").open("a") as text:
        text.write('/* gpurt_client_end() */\nstatic const char *planted = "gpurt_client_end()";\n')
        text.write("static struct gpurt_begin planted_too;\n")
        text.write("#ifdef GPURT_KUNIT\nvoid test(void) { gpurt_client_end(0); }\n#endif\n")
    assert check(copy).returncode == 0


def test_a_folder_without_a_map_is_refused(tmp_path: Path) -> None:
    done = check(tmp_path)
    assert done.returncode == 2
    assert "main.c" in done.stderr


LOCKS = re.compile(
    r"^(?:\t| )*(?:static )?(?:DEFINE_(?:RAW_SPINLOCK|MUTEX|RT_MUTEX|SPINLOCK|STATIC_SRCU)\((\w+)\)"
    r"|(?:raw_spinlock_t|spinlock_t|struct mutex|struct rt_mutex|struct srcu_struct) (\w+);)", re.MULTILINE
)  # fmt: skip


def test_the_page_of_locks_has_all_of_them_and_their_files() -> None:
    page = (ROOT / "docs/locks.md").read_text()
    found = set()
    for path in (ROOT / "kmod").rglob("*.[ch]"):
        name = path.relative_to(ROOT / "kmod")
        if name.parts[0] not in ("patches", "tests"):
            found |= {(str(name), one or two) for one, two in LOCKS.findall(path.read_text())}
    assert len(found) > 20
    assert [one for one in sorted(found) if not re.search(rf"`[\w.]*\b{one[1]}`", page)] == []
    named = set(re.findall(r"`((?:base|state|decide|clients|calls|drv)/\w+\.[ch])`", page))
    assert [one for one in sorted(named) if not (ROOT / "kmod" / one).exists()] == []
