"""Compiles the C programs of tests/core/native together with the core; warnings are errors."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Whether GPURT_LONG asks for the long form of tests that search: deeper, and with more examples.
LONG = bool(os.environ.get("GPURT_LONG"))
NATIVE = Path(__file__).resolve().parent / "native"
CORE = ROOT / "kmod/core"
WARNINGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"]
SANITIZE = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def core_sources(*names: str) -> list[Path]:
    return [CORE / f"{name}.c" for name in names]


def compile_program(target: Path, sources: list[Path], flags: list[str]) -> Path:
    """Compiles and links ``sources``; a warning is an error.

    Each C file alone, in its folder and by its name: ccache knows it again, also in a copy of the tree.
    """
    compiler, objects = [*shlex.split(os.environ.get("CC", "cc")), *WARNINGS, *flags], []
    for source in sources:
        alone = source.suffix == ".c" and "-c" not in flags
        objects.append(target.with_name(f"{target.name}-{len(objects)}-{source.stem}.o") if alone else source)
        if alone:
            _run([*compiler, "-c", source.name, "-o", objects[-1]], source.parent)
    if "-c" in flags:
        _run([*compiler, *(one.name for one in objects), "-o", target], objects[0].parent)
    else:
        _run([*compiler, *objects, "-o", target], target.parent)
    return target


def _run(command: list[str | Path], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def copy_tree(target: Path) -> Path:
    """Copies the core and the native tests to ``target``, in the same layout, so that a test can change the copy."""
    for folder in ("kmod/core", "kmod/uapi", "tests/core/native"):
        (target / folder).mkdir(parents=True)
        for path in sorted((ROOT / folder).glob("*.[ch]")):
            (target / folder / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    return target
