# SPDX-License-Identifier: GPL-2.0
"""kmod/compat.h refuses kernels that the module does not support, and probes are of the type of their tracepoint."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

COMPAT = Path(__file__).parents[2] / "kmod/compat.h"
KERNEL = {"LINUX_VERSION_CODE": "KERNEL_VERSION(5, 10, 0)", "CONFIG_64BIT": "1", "CONFIG_TRACEPOINTS": "1"}


def errors(folder: Path, kernel: dict[str, str]) -> list[str]:
    """Errors of the preprocessor for a kernel with these macros.  The kernel's own headers are empty."""
    for header in re.findall(r"#include <(.*)>", COMPAT.read_text()):
        (folder / header).parent.mkdir(parents=True, exist_ok=True)
        (folder / header).touch()
    macros = [f"-D{name}={value}" for name, value in kernel.items()]
    version = "-DKERNEL_VERSION(a, b, c)=((a) << 16 | (b) << 8 | (c))"
    command = [shutil.which("cc") or "gcc", "-E", "-nostdinc", f"-I{folder}", version, *macros, str(COMPAT)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode != 0) == ("error" in run.stderr), run.stderr
    return re.findall(r"#error (.*)", "\n".join(line for line in run.stderr.splitlines() if " error: " in line))


def test_a_supported_kernel_has_nothing_to_be_told(tmp_path: Path) -> None:
    assert errors(tmp_path, KERNEL) == []


@pytest.mark.parametrize(
    ("macro", "value", "why"),
    [
        ("LINUX_VERSION_CODE", "KERNEL_VERSION(5, 9, 255)", "needs Linux 5.10 or newer"),
        ("CONFIG_64BIT", None, "needs a 64-bit kernel"),
        ("CONFIG_TRACEPOINTS", None, "needs CONFIG_TRACEPOINTS"),
    ],
)
def test_another_kernel_is_refused_in_one_line(tmp_path: Path, macro: str, value: str | None, why: str) -> None:
    kernel = {**KERNEL, macro: value}
    (said,) = errors(tmp_path, {name: content for name, content in kernel.items() if content is not None})
    assert why in said


PROBES = r"""
#include <stdbool.h>
#include <stdio.h>
#define BUILD_BUG_ON_ZERO(e) ((int)(sizeof(struct { int: (-!!(e)); })))
struct task_struct;
static inline void check_trace_callback_type_sched_process_exit(
	void (*probe)(void *data, struct task_struct *task EXTRA))
{
	(void)probe;
}
MACROS
struct gpurt_probe { const char *name; void *function; };
static void one(void *data, struct task_struct *task) { (void)data; (void)task; puts("one"); }
static void two(void *data, struct task_struct *task, bool last) { (void)data; (void)task; (void)last; puts("two"); }
static struct gpurt_probe probe = GPURT_PROBE(sched_process_exit, PROBE);
int main(void)
{
	((void (*)(void *, struct task_struct *, bool))probe.function)(0, 0, true);
	return (void (*)(void *, struct task_struct *, bool))one == two;
}
"""


def macro(path: Path, name: str) -> str:
    """The definition of a macro, with its lines that go on."""
    return re.findall(rf"^#define {name}\((?:.*\\\n)*.*\n", path.read_text(), re.MULTILINE)[0]


def compile_probe(folder: Path, extra: str, probe: str) -> subprocess.CompletedProcess[str]:
    """Compiles and runs a table with a probe of a tracepoint of which a kernel gives the arguments."""
    macros = macro(COMPAT, "compat_exit_probe") + macro(COMPAT.parent / "base/tracepoints.h", "GPURT_PROBE")
    source = folder / "probes.c"
    source.write_text(PROBES.replace("MACROS", macros).replace("EXTRA", extra).replace("PROBE)", f"{probe})"))
    command = [shutil.which("cc") or "gcc", "-std=gnu11", "-Wno-unused-function", "-o", folder / "probes", source]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        return built
    return subprocess.run([folder / "probes"], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("extra", "called"), [("", "one"), (", bool last", "two")])
def test_the_probe_of_exits_is_the_kernels(tmp_path: Path, extra: str, called: str) -> None:
    assert compile_probe(tmp_path, extra, "compat_exit_probe(one, two)").stdout == f"{called}\n"
    other = {"one": "two", "two": "one"}[called]
    assert "width" in compile_probe(tmp_path, extra, other).stderr


def test_every_probe_is_checked() -> None:
    sources = {path.name: path.read_text() for path in COMPAT.parent.rglob("*.c") if "patches" not in path.parts}
    tables = {name: text for name, text in sources.items() if "struct gpurt_probe probes[]" in text}
    assert set(tables) == {"exits.c", "job.c"}
    for text in tables.values():
        table = text.split("struct gpurt_probe probes[] = {")[1].split("};")[0]
        assert all(line.strip().startswith("GPURT_PROBE(") for line in table.strip().splitlines())
