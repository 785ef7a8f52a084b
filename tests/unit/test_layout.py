# SPDX-License-Identifier: GPL-2.0
"""Imports point one way: pycontrol -> analysis -> gpurt (docs/design.md, "What may include or import what")."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomlkit

ROOT = Path(__file__).resolve().parents[2]
#: Packages from the ground floor up, and where they are.
FLOORS = {"gpurt": ROOT / "userlib/gpurt", "analysis": ROOT / "analysis", "pycontrol": ROOT / "pycontrol"}


def imported(source: str) -> Iterator[str]:
    """The modules that Python source imports, wherever in it, also by a name that it passes to importlib."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the package"
            yield node.module or ""
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            name = node.args[0]
            yield str(ast.literal_eval(name)) if isinstance(name, ast.Constant) else ast.unparse(name).strip("f'\"")


def arrows_up(floor: str, source: str) -> list[str]:
    """The imports of a module on `floor` that point to a floor above it."""
    above = list(FLOORS)[list(FLOORS).index(floor) + 1 :]
    return [name for name in imported(source) if name.partition(".")[0] in above]


def test_no_import_points_up() -> None:
    found = {
        str(path.relative_to(ROOT)): arrows
        for floor, folder in FLOORS.items()
        for path in folder.rglob("*.py")
        if (arrows := arrows_up(floor, path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_an_arrow_that_points_up_is_found() -> None:
    assert arrows_up("gpurt", "import analysis.model") == ["analysis.model"]
    assert arrows_up("analysis", "def f():\n    from pycontrol.link import control") == ["pycontrol.link"]
    assert arrows_up("analysis", "import importlib\nimportlib.import_module('pycontrol.cli')") == ["pycontrol.cli"]
    assert arrows_up("pycontrol", "import analysis, gpurt") == []


@pytest.mark.parametrize("floor", list(FLOORS)[:-1])
def test_a_floor_loads_without_those_above(floor: str) -> None:
    """Importing every module of a floor loads nothing of the floors above it."""
    above = list(FLOORS)[list(FLOORS).index(floor) + 1 :]
    package = FLOORS[floor]
    names = [
        ".".join((floor, *path.relative_to(package).with_suffix("").parts)).removesuffix(".__init__")
        for path in sorted(package.rglob("*.py"))
    ]
    program = (
        f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"
        f"print(*sorted(m for m in sys.modules if m.partition('.')[0] in {above!r}))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []


def included(source: str) -> set[str]:
    """The headers of the tree that a C file includes, and those that these include."""
    file = ROOT / source
    places = (file.parent, ROOT, ROOT / "userlib/include")
    names = re.findall(r'^#include [<"]([^>"]+)[>"]', file.read_text(encoding="utf-8"), re.MULTILINE)
    headers = {(place / name).resolve() for name in names for place in places if (place / name).is_file()}
    found = {str(header.relative_to(ROOT)) for header in headers}
    return found.union(*map(included, found))


def test_the_extension_is_compiled_again_after_a_change_to_any_of_its_headers() -> None:
    project = tomlkit.parse((ROOT / "pyproject.toml").read_text(encoding="utf-8")).unwrap()
    (extension,) = project["tool"]["setuptools"]["ext-modules"]
    headers = set().union(*map(included, extension["sources"]))
    # a link to one of them, which the source distribution has as well, is that one
    depends = {str((ROOT / name).resolve().relative_to(ROOT)) for name in extension["depends"]}
    assert headers | {"userlib/cffi_build.py"} == depends


def test_no_two_test_files_have_one_name() -> None:
    """A worker that is given both refuses the second.  Those of the guest run in the guest only."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py") if "guest" not in path.parts]
    assert [name for name, count in Counter(names).items() if count > 1] == []
