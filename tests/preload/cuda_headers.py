# SPDX-License-Identifier: GPL-2.0
"""The functions that CUDA's headers declare, and the wheels of the CUDA runtime that bring headers and runtime."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

#: A release each of CUDA 12 and 13: the package, and where in its wheel the runtime is.
RUNTIMES = {
    "12.9": ("nvidia-cuda-runtime-cu12==12.9.79", "nvidia/cuda_runtime"),
    "13.5": ("nvidia-cuda-runtime==13.5.37", "nvidia/cu13"),
}
CACHE = Path.home() / ".cache/gpurt/cuda"
#: How a type is passed: the letters of cuda.table.
LETTERS = {
    "unsigned char": "C", "unsigned short": "H", "int": "I", "unsigned int": "I", "float": "F",
    "unsigned long long": "Q", "unsigned long int": "Q", "long unsigned int": "Z",
}  # fmt: skip


def runtime(cuda: str) -> Path:
    """The folder of a CUDA runtime, with `include` and `lib`.  Downloads it once; skips if that is not possible."""
    package, inside = RUNTIMES[cuda]
    if not (CACHE / cuda).exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as made:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", made, package]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"no package index has {package}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
            for wheel in Path(made).glob("*.whl"):
                zipfile.ZipFile(wheel).extractall(Path(made) / "all")
            try:
                os.rename(Path(made) / "all", CACHE / cuda)
            except OSError:  # another test was faster
                assert (CACHE / cuda).exists()
    return CACHE / cuda / inside


def installed() -> list[Path]:
    """The folders of this machine with CUDA's headers."""
    found = [*Path("/usr/local").glob("cuda*/include"), *Path("/usr/local").glob("cuda*/targets/*/include")]
    return sorted({one.resolve() for one in [*found, Path("/usr/include")] if (one / "cuda.h").exists()})


@dataclass(frozen=True)
class Headers:
    """The declarations of the headers: functions by their symbols, and forms of functions.

    A form is the function's name, the version since which the look-up answers with it, and its ending.  The ending is
    `_ptsz` or `_ptds` for the per-thread default stream.  A parameter is a letter of cuda.table, or the name of a
    structure that is passed by value.  Functions that work on other libraries' objects (OpenGL) are known by name only.
    """

    symbols: dict[str, tuple[str, ...]]
    forms: dict[tuple[str, int, str], tuple[str, ...]]
    others: frozenset[str]

    def names(self) -> set[str]:
        """The names of the functions, as the look-up knows them."""
        return {base(one) for one in (*self.symbols, *self.others)} | {name for name, _, _ in self.forms}


def base(symbol: str) -> str:
    """The name of a function without what tells its forms apart."""
    return re.sub(r"(_v\d+)?(_pt[sd][sz])?$", "", symbol)


def preprocessed(include: Path) -> str:
    """The headers as the C preprocessor shows them with all forms of all functions.  Skips without a compiler."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    main = [one for one in ("cuda.h", "cudaTypedefs.h", "cudaProfiler.h") if (include / one).exists()]
    return subprocess.run(
        ["cc", "-E", "-P", "-D__CUDA_API_VERSION_INTERNAL", "-I", include, "-xc", "-"],
        input="".join(f"#include <{one}>\n" for one in main), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def read(include: Path) -> Headers:
    """The declarations of the headers in that folder."""
    text = preprocessed(include)
    types = Types(text)
    symbols = re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(([^;]*)\)\s*;", text)
    forms = re.findall(r"typedef CUresult\s*\(\s*\*\s*PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\)\s*\(([^;]*)\)\s*;", text)
    others: set[str] = set()
    for one in include.glob("cuda[GEVP]*.h"):
        raw = one.read_text()
        others |= set(re.findall(r"CUresult CUDAAPI (cu[A-Z]\w+)\s*\(", raw))
        others |= set(re.findall(r"\*PFN_(cu\w+?)_v\d+(?:_pt[sd][sz])?\)", raw))
    return Headers(
        {symbol: types.letters(parameters) for symbol, parameters in symbols},
        {(name, int(version), ending): types.letters(parameters) for name, version, ending, parameters in forms},
        frozenset(others),
    )


class Types:
    """How the types of the headers are passed."""

    def __init__(self, text: str) -> None:
        self.known = dict(LETTERS)
        plain = text
        for _ in range(4):  # structures within structures
            plain = re.sub(r"\{[^{}]*\}", "", plain)
        for old, name in re.findall(r"typedef\s+([\w\s*]+?[\s*])(\w+)(?:\[\d+\])?\s*;", plain):
            self.known[name] = self.of(old.strip(), name)
        for name in re.findall(r"typedef\s+[\w\s*]+?\(\s*\*\s*(\w+)\)\s*\(", plain):
            self.known[name] = "P"

    def of(self, text: str, name: str) -> str:
        kind = text.replace("const", "").strip()
        if "*" in kind:
            return "P"
        if kind.startswith("enum"):
            return "I"
        return self.known.get(kind, name if kind.startswith(("struct", "union")) else kind)

    def letters(self, parameters: str) -> tuple[str, ...]:
        """How each of the parameters is passed."""
        if parameters.strip() in ("", "void"):
            return ()
        return tuple(self.letter(one.strip()) for one in re.sub(r"\([^()]*\)", "", parameters).split(","))

    def letter(self, parameter: str) -> str:
        if "*" in parameter or "[" in parameter:
            return "P"
        words = parameter.replace("const ", "").split()
        return self.known.get(" ".join(words)) or self.known.get(" ".join(words[:-1])) or " ".join(words)
