#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes for Debian packages what pyproject.toml describes: the extension's sources, Python packages, and a page.

Usage: extension.py emit FILE      writes the C code that cffi makes
       extension.py sources        prints the other C files
       extension.py install DIR    copies the Python packages there, with the file that states their version
       extension.py page FILE      writes the manual page of gpurt-task, which is the text of its --help
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
TASK = "userlib/examples/gpurt_task_args.c"
PAGE = """\
.TH "GPURT-TASK" "1" "" "gpurt {version}" "gpurt manual"
.SH NAME
gpurt\\-task \\- program that stands for a task
.SH SYNOPSIS
.nf
{usage}
.fi
.SH DESCRIPTION
{text}
`gpurt run` and `gpurt demo` start it for the tasks of a file that name no command of their own.
.SH OPTIONS
.nf
{options}
.fi
.SH EXIT STATUS
{status}
.SH SEE ALSO
.BR gpurt (1),
.BR gpurt\\-run (1)
"""
METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {description}\n"


def emit(project: dict[str, Any], target: Path) -> None:
    """Writes the extension module's C code."""
    sys.path.insert(0, str(ROOT))
    from userlib.cffi_build import make_ffi

    target.parent.mkdir(parents=True, exist_ok=True)
    make_ffi().emit_c_code(str(target))


def sources(project: dict[str, Any]) -> None:
    """Prints the other C files."""
    (extension,) = project["tool"]["setuptools"]["ext-modules"]
    print(*extension["sources"])


def install(project: dict[str, Any], folder: Path) -> None:
    """Copies the modules and data of every package, and writes the file that importlib.metadata reads."""
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


def page(project: dict[str, Any], target: Path) -> None:
    """Writes gpurt-task's manual page, from the strings that the program prints."""
    source = (ROOT / TASK).read_text(encoding="utf-8")
    (strings,) = re.findall(r"^static const char usage\[\] =\n(.*?);$", source, re.MULTILINE | re.DOTALL)
    printed = "".join(re.findall(r'^"(.*)"', strings, re.MULTILINE)).replace("\\n", "\n").strip()
    usage, options, status = printed.replace("gpurt_task", "gpurt-task").replace("-", "\\-").split("\n\n")
    usage, _, text = usage.rpartition("\n")
    made = PAGE.format(version=project["project"]["version"], usage=usage.replace("Usage:", "      "), text=text,
                       options=options, status=status.removeprefix("Exit status: ").capitalize())  # fmt: skip
    target.write_text(made, encoding="utf-8")


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
        case ["page", target]:
            page(project, Path(target))
        case _:
            sys.exit(str(__doc__))


if __name__ == "__main__":
    main()
