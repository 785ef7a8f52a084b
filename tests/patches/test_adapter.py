# SPDX-License-Identifier: GPL-2.0
"""The adapter of gpurt.ko for patched drivers (kmod/drv/port*.c), in user space: adapter/adapter.c."""

from __future__ import annotations

from pathlib import Path

import pytest
from alone import code_of, expect_notice, run

FILES = ["port.h", "drv.h", "port_processes.h", "port_gpu.h", "port_processes.c", "port_gpu.c", "port.c"]
#: Mutants that must be noticed, by what each breaks: a line of the adapter, and what it becomes.
MUTANTS = {
    "all clients are told with the lock held": ("#define AT_ONCE 8", "#define AT_ONCE 1000000"),
    "the worker does not come back": ("list_add_tail(&p->news, &all->news);\n\tqueue_work(", "("),
    "the owner is told when it is its turn": ("first = all->only && all->only->process == p ?", "first = false ?"),
    "a kill is told twice": ("all->only->kills = p->kills;", ";"),
    "a kill is not told": ("list_add_tail(&p->killed, &all->killed);", ";"),
    "a client hears of kills before its time": (
        "c->kills = p->kills;\n\traw_spin_unlock(&all->only_lock);\n\tlist_add(",
        "raw_spin_unlock(&all->only_lock);\n\tlist_add(",
    ),
    "a process that goes stays among the killed": ("list_del(&p->killed);\n\traw_spin_unlock", "raw_spin_unlock"),
    "a process that goes stays among those with news": ("list_del(&p->news);\n\traw_spin_lock", "raw_spin_lock"),
    "older rules count": ("p->rules = all->rules;\n\t\t\tlist_move_tail", "list_move_tail"),
    "the reference to a process is kept": ("put_pid(p->by.tgid);", ";"),
    "memory that nobody uses is kept": ("kfree(fresh);\n\treturn c;", "return c;"),
    "a reset is told of in two steps": (
        "raw_spin_lock(&dev->reset_lock);\n\tif (dev->resetting != begins) {\n"
        "\t\tWRITE_ONCE(dev->resetting, begins);\n",
        "if (xchg(&dev->resetting, begins) != begins) {\n\t\traw_spin_lock(&dev->reset_lock);\n"
        "\t\traw_spin_unlock(&dev->reset_lock);\n",
    ),
    "half a line is told": ("if (!more && one < size - LAST_LINE - length)", "if (true)"),
    "the same is logged again": ("if (!is_news(d))\n\t\treturn;", ""),
    "a driver that was replaced is not judged again": ("(d->err, 0);\n\tis_news(d);", "(d->err, 0);"),
}  # fmt: skip


def adapter() -> str:
    """The code that runs here."""
    return code_of(*(f"drv/{name}" for name in FILES))


def test_the_adapter_does_what_it_says(tmp_path: Path) -> None:
    done = run("adapter", adapter(), tmp_path)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr[-3000:]


@pytest.mark.slow(0.5)
def test_planted_bugs_are_found(tmp_path: Path) -> None:
    expect_notice("adapter", adapter(), MUTANTS, tmp_path, "50")
