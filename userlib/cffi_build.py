# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Builds ``gpurt._gpurt``: the scheduler core, the virtual GPU, the simulator and libgpurt for Python.

The C preprocessor reads every struct, enum, function and constant from the C headers, and the compiler fills the
numbers in.  So no number of the interface is typed twice.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from cffi import FFI
from setuptools import Extension
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent.parent
MODULE = "gpurt._gpurt"
UAPI = "kmod/uapi/gpurt.h"
HEADERS = [
    UAPI,
    "kmod/core/env.h",
    "kmod/core/queue.h",
    "kmod/core/budget.h",
    "kmod/core/latency.h",
    "kmod/core/bus.h",
    "kmod/core/boost.h",
    "kmod/core/group.h",
    "kmod/core/sched.h",
    "kmod/core/stuck.h",
    "kmod/core/interleave.h",
    "kmod/core/pace.h",
    "kmod/core/vgpu.h",
    "kmod/core/whole.h",
    "kmod/core/calls.h",
    "kmod/core/attributes.h",
    "kmod/core/grants.h",
    "kmod/core/marks.h",
    "kmod/core/agents.h",
    "userlib/units/sgpu.h",
    "userlib/units/sbeet.h",
    "userlib/units/sbeet_pass.h",
    "userlib/units/units.h",
    "userlib/include/gpurt.h",
    "userlib/mig.h",
    "analysis/native/simulate.h",
    "analysis/native/explore.h",
    "analysis/native/energy_sim.h",
    "analysis/native/columns.h",
    "analysis/native/rta.h",
    "analysis/native/rtgpu_sim.h",
]
#: Headers whose object-like macros become constants in Python.
CONSTANTS = [
    UAPI, "kmod/core/boost.h", "kmod/core/queue.h", "kmod/core/sched.h", "kmod/core/grants.h", "kmod/core/agents.h",
    "kmod/core/stuck.h",
    "kmod/core/pace.h", "kmod/core/vgpu.h", "userlib/units/sgpu.h", "userlib/mig.h", "analysis/native/rtgpu_sim.h",
]  # fmt: skip
#: Types that the headers take from the kernel or from libc.
TYPES = """
typedef uint8_t u8; typedef uint32_t u32; typedef uint64_t u64;
typedef uint8_t __u8; typedef uint32_t __u32; typedef int32_t __s32; typedef uint64_t __u64;
struct list_head { struct list_head *next; struct list_head *prev; };
"""
#: Functions in Python that the core calls (pycontrol/host/gpu.py, virtual.py).
CALLBACKS = """
extern "Python" {
void gpurt_py_commit(struct gpurt_sched *, struct gpurt_sched_client *, u32, u64);
void gpurt_py_event(struct gpurt_sched *, struct gpurt_sched_client *, u32, u64);
void gpurt_py_raise(struct gpurt_sched *, struct gpurt_sched_client *, u32, u64);
void gpurt_py_regroup(struct gpurt_sched *, struct gpurt_group *, u64);
void gpurt_py_done(struct gpurt_vgpu *, struct gpurt_vgpu_tsg *, struct gpurt_vgpu_work *, u64);
void gpurt_py_order(struct gpurt_agents *, struct gpurt_agent_process *);
void gpurt_py_late(struct gpurt_agents *, struct gpurt_agent_process *, u64);
void gpurt_py_finished(struct gpurt_agents *, int, u64);
void gpurt_py_retry(struct gpurt_agents *);
}
"""

#: Calls whose result is in memory before Python handles a signal: if a handler raises, what a call returns is lost.
#: `status` is NOT_CALLED until the call is over.
KEPT_CALLS = """
#define GPURT_NOT_CALLED 1
static void gpurt_py_begin(struct gpurt_handle *handle, unsigned int flags, unsigned int priority, int *status)
{
	*status = gpurt_segment_begin(handle, flags, priority);
}
static void gpurt_py_end(struct gpurt_handle *handle, unsigned int flags, int *status)
{
	*status = gpurt_segment_end(handle, flags);
}
static void gpurt_py_copy(struct gpurt_handle *handle, unsigned int priority, uint64_t timeout_ns, int *status)
{
	*status = gpurt_copy_begin(handle, priority, timeout_ns);
}
"""
KEPT_DECLARATIONS = """
#define GPURT_NOT_CALLED ...
void gpurt_py_begin(struct gpurt_handle *, unsigned int, unsigned int, int *);
void gpurt_py_end(struct gpurt_handle *, unsigned int, int *);
void gpurt_py_copy(struct gpurt_handle *, unsigned int, uint64_t, int *);
"""


def declarations(headers: list[str]) -> str:
    """All C declarations of the headers, as the preprocessor gives them with GPURT_CDEF defined."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    includes = "".join(f'#include "{ROOT / header}"\n' for header in headers)
    command = [*compiler, "-E", "-P", "-x", "c", "-DGPURT_CDEF", "-nostdinc", "-"]
    run = subprocess.run(command, input=includes, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"the C preprocessor failed on gpurt's headers:\n{run.stderr}")
    return run.stdout


def constants(header: str) -> str:
    """cffi declarations of the object-like macros of a header; their values are the compiler's."""
    text = (ROOT / header).read_text(encoding="utf-8")
    lines = []
    for name, value in re.findall(r"^#define\s+(GPURT_\w+)[ \t]+(\S.*)$", text, re.MULTILINE):
        lines.append(f"static char *const {name};" if value.startswith('"') else f"#define {name} ...")
    return "\n".join(lines)


def make_ffi() -> FFI:
    """The FFI object: every declaration, not yet compiled."""
    builder = FFI()
    builder.cdef(TYPES)
    builder.cdef(declarations(HEADERS))
    for header in CONSTANTS:
        builder.cdef(constants(header))
    builder.cdef(CALLBACKS + KEPT_DECLARATIONS)
    internal = [header for header in HEADERS if not header.startswith(("kmod/uapi", "userlib/include"))]
    includes = "".join(f'#include "{header}"\n' for header in internal)
    builder.set_source(MODULE, f"#include <gpurt.h>\n{includes}{KEPT_CALLS}")
    return builder


def is_gcc(compiler: str) -> bool:
    """Whether it optimizes across files with the linker that it has.  clang needs another linker for that."""
    run = subprocess.run([compiler, "-dM", "-E", "-x", "c", os.devnull], capture_output=True, text=True, check=False)
    return not run.returncode and "__clang__" not in run.stdout


class BuildExt(build_ext):
    """setuptools' build_ext, which first lets cffi write the wrapper's C code (see pyproject.toml)."""

    def build_extension(self, ext: Extension) -> None:
        """Builds one extension.  Adds the source that cffi generates if the extension is ``gpurt._gpurt``."""
        if ext.name == MODULE:
            generated = Path(self.build_temp) / "_gpurt.c"
            generated.parent.mkdir(parents=True, exist_ok=True)
            make_ffi().emit_c_code(str(generated))
            ext.sources = [*ext.sources, str(generated)]
            if is_gcc(self.compiler.compiler_so[0]):
                ext.extra_compile_args = [*ext.extra_compile_args, "-flto"]
        super().build_extension(ext)
