#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What of pyproject.toml the Debian packages need: the extension module's sources, and the Python packages.

Usage: extension.py emit FILE      writes the C code that cffi makes
       extension.py sources        prints the other C files
       extension.py install DIR    copies the Python packages there, with what tells their version
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {description}\n"


def emit(project: dict[str, Any], target: Path) -> None:
    """Writes the extension module's C code."""
    sys.path.insert(0, str(ROOT))
    from userlib.cffi_build import make_ffi

    target.parent.mkdir(parents=True, exist_ok=True)
    make_ffi().emit_c_code(str(target))


def sources(project: dict[str, Any]) -> None:
    """Prints the C files beside that."""
    (extension,) = project["tool"]["setuptools"]["ext-modules"]
    print(*extension["sources"])


def install(project: dict[str, Any], folder: Path) -> None:
    """Copies the modules and data of every package, and writes what importlib.metadata reads."""
    places = project["tool"]["setuptools"]["package-dir"]
    data = project["tool"]["setuptools"].get("package-data", {})
    for name in project["tool"]["setuptools"]["packages"]:
        target = folder / name.replace(".", "/")
        target.mkdir(parents=True, exist_ok=True)
        source = ROOT / places.get(name, name.replace(".", "/"))
        for file in (one for pattern in ("*.py", *data.get(name, ())) for one in source.glob(pattern)):
            copy = target / file.relative_to(source)
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(file, copy)
    info = folder / f"{project['project']['name']}-{project['project']['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA.format(**project["project"]), encoding="utf-8")


def main() -> None:
    """Does what the arguments say."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    match sys.argv[1:]:
        case ["emit", target]:
            emit(project, Path(target))
        case ["sources"]:
            sources(project)
        case ["install", folder]:
            install(project, Path(folder))
        case _:
            sys.exit(str(__doc__))


if __name__ == "__main__":
    main()
