# SPDX-License-Identifier: GPL-2.0
"""The functions of HIP: what its headers declare and its library exports, as Debian packages them.

Also a libamdhip64.so and its caller, in C, from the headers' prototypes (see cuda_forms).
"""

from __future__ import annotations

import re
import shutil
import subprocess

import cuda_forms
import pytest
from cuda_headers import Types
from rocm import unpacked

#: Structures that are passed by value: the letters of hip.table.
STRUCTURES = {"dim3": "D", "hipExtent": "X", "hipPitchedPtr": "T"}
PRELUDE = cuda_forms.PRELUDE.replace("#include <cuda.h>", "#include <hip/hip_runtime_api.h>")
PROTOTYPE = r"\bhipError_t\s+(hip[A-Z]\w*)\s*\(([^;{]*?)\)\s*;"


def flags() -> list[str]:
    """The options that the compiler needs to find and read the headers."""
    return ["-D__HIP_PLATFORM_AMD__", f"-I{unpacked('libamdhip64-dev')}/usr/include"]


def version() -> tuple[int, int]:
    """The release of the distribution's headers, such as (5, 2)."""
    text = (unpacked("libamdhip64-dev") / "usr/include/hip/hip_version.h").read_text()
    major, minor = (int(re.findall(rf"^#define HIP_VERSION_{one} (\d+)", text, re.M)[0]) for one in ("MAJOR", "MINOR"))
    return major, minor


def preprocessed() -> str:
    """The header of the API as the C preprocessor shows it.  Skips without a compiler or Debian's package."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    return subprocess.run(
        ["cc", "-E", "-P", *flags(), "-xc", "-"], input="#include <hip/hip_runtime_api.h>\n",
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def extensions() -> str:
    """The declarations of hip_ext.h, which is C++, without comments and default values."""
    text = (unpacked("libamdhip64-dev") / "usr/include/hip/hip_ext.h").read_text()
    plain = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    return re.sub(r"\s*=\s*\w+|\s*__dparm\(\w*\)|\s*__attribute__\(\(.*?\)\)+", "", plain, flags=re.DOTALL)


def declared() -> dict[str, str]:
    """Symbol -> how its parameters are passed, in letters of hip.table."""
    text = preprocessed()
    types = Types(text)
    return {
        symbol: "".join(STRUCTURES.get(one, one) for one in types.letters(parameters))
        for symbol, parameters in re.findall(PROTOTYPE, text + extensions())
    }


def exported() -> set[str]:
    """The functions that the library exports.  Skips without nm."""
    if not shutil.which("nm"):
        pytest.skip("needs nm")
    (library,) = unpacked(f"libamdhip64-{version()[0]}").glob("usr/lib/*/libamdhip64.so.*.*")
    names = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" T (hip[A-Z]\w*)", names))


def functions() -> dict[str, list[tuple[str, str]]]:
    """The functions that C can call, with the types and names of their parameters."""
    return {symbol: cuda_forms.parameters_of(text) for symbol, text in re.findall(PROTOTYPE, preprocessed())}


def library(known: dict[str, list[tuple[str, str]]]) -> str:
    """The code of a library whose functions note their arguments."""
    code = [PRELUDE, cuda_forms.LIBRARY]
    for symbol, parameters in known.items():
        head = ", ".join(f"{kind} {name}" for kind, name in parameters) or "void"
        notes = " ".join(f"NOTE({name});" for _, name in parameters)
        body = f'CALLED("{symbol}", return 0); {notes} return noted.result;'
        code.append(f"EXPORT hipError_t {symbol}({head}) {{ {body} }}")
    return "\n".join(code) + "\n"


def caller(known: dict[str, list[tuple[str, str]]]) -> str:
    """The code of a program that calls each function, and prints which are wrapped and what goes wrong."""
    code = cuda_forms.caller(known, []).replace(cuda_forms.PRELUDE, PRELUDE)
    for of_cuda, of_hip in (("CUresult", "hipError_t"), ("cuuint64_t", "uint64_t"), ("libcuda.so.1", "libamdhip64.so")):
        code = code.replace(of_cuda, of_hip)
    return code
