# SPDX-License-Identifier: GPL-2.0
"""Threads of a taskset file that serve several tasks: their tables, and the keys that their tasks' tables may have."""

from __future__ import annotations

from analysis.model.callbacks import Callback, Order, Thread
from analysis.taskset.fields import TASK
from analysis.taskset.lines import Path as Where
from analysis.taskset.schema import Field, Mistakes, quoted
from analysis.taskset.segments import uses_gpu
from gpurt.types import Document

#: Keys of a thread's table; a task without such a thread has them itself.
OF_THREAD = ("cpu", "priority", "gpu_priority", "command", "cgroup", "group", "process")
#: Keys of a task that have a meaning only in a thread.
IN_THREAD = ("thread", "rank", "kind")
#: Where these keys belong, by whether the task is in a thread.
WRONG = {
    True: "goes into its [[thread]], which has one for all of its tasks",
    False: 'goes with thread = "...", the name of a [[thread]]',
}
SERVED = {key: one for key, one in TASK.items() if key not in OF_THREAD}


def fields_of(entry: Document) -> dict[str, Field]:
    """The fields that a [[task]] may have: a task of a thread has neither CPU nor priorities of its own."""
    return SERVED if "thread" in entry else TASK


def misplaced(entry: Document, path: Where, report: Mistakes) -> Document:
    """The table without keys that belong to its thread, and without keys that need a thread; reports both."""
    wrong = OF_THREAD if "thread" in entry else IN_THREAD
    for key in wrong:
        if key not in entry:
            continue
        report.add((*path, key), f"{key}: {WRONG['thread' in entry]}")
    return {key: value for key, value in entry.items() if key not in wrong}


def check_threads(document: Document, report: Mistakes) -> None:
    """Reports contradictions between the tables of threads and of their tasks, even beside other mistakes."""
    threads = {one["name"]: (at, one) for at, one in _tables(document, "thread") if isinstance(one.get("name"), str)}
    served: dict[str, list[tuple[int, Document]]] = {name: [] for name in threads}
    there = f"there are {', '.join(threads)}"[:200] if threads else "the file has no [[thread]]"
    for at, one in _tables(document, "task"):
        wanted = one.get("thread")
        if not isinstance(wanted, str):
            continue
        if wanted in served:
            served[wanted].append((at, one))
        else:
            report.add(("task", at, "thread"), f"thread: no [[thread]] is called {quoted(wanted)}; {there}")
    for name, (index, values) in threads.items():
        if not served[name]:
            text = f'thread {quoted(name)} serves no task; a [[task]] names it: thread = "{name}"'
            report.add(("thread", index), text)
        if values.get("order") in [order.value for order in Order]:
            _check_ranks(Order(values["order"]), served[name], report)
        _check_parts(name, served[name], report)


def _tables(document: Document, kind: str) -> list[tuple[int, Document]]:
    entries = document.get(kind, [])
    return [(at, one) for at, one in enumerate(entries if isinstance(entries, list) else []) if isinstance(one, dict)]


def _check_ranks(order: Order, served: list[tuple[int, Document]], report: Mistakes) -> None:
    """Ranks are distinct, timers that the thread looks at first have the first ranks, and a fifo has no ranks."""
    seen: dict[int, str] = {}
    late: str | None = None
    for at, one in sorted(served, key=lambda pair: pair[1]["rank"] if _ranked(pair[1]) else -1):
        path: Where = ("task", at)
        if not order.ranked:
            if "rank" in one:
                report.add((*path, "rank"), "rank: order fifo serves jobs as they are released; leave it out")
            continue
        if "rank" not in one:
            report.add(path, f'"rank" is missing: its place in its thread\'s order {order.value}, 0 first')
        elif _ranked(one) and one["rank"] in seen:
            report.add((*path, "rank"), f"rank: {one['rank']} is taken by task {quoted(seen[one['rank']])} already")
        elif _ranked(one):
            seen[one["rank"]] = str(one.get("name"))
        if order is Order.LIVE_TIMERS:
            late = _check_timer(one, late, path, report)


def _check_timer(one: Document, late: str | None, path: Where, report: Mistakes) -> str | None:
    """Returns the first task by rank that is not a timer."""
    if "kind" not in one:
        report.add(path, '"kind" is missing: order ros2-live-timers looks at timers before all others')
    elif one["kind"] != Callback.TIMER.value:
        return late or str(one.get("name"))
    elif late is not None:
        report.add((*path, "rank"), f"rank: order ros2-live-timers has timers before {quoted(late)}, which is none")
    return late


def _ranked(one: Document) -> bool:
    return type(one.get("rank")) is int


def _check_parts(name: str, served: list[tuple[int, Document]], report: Mistakes) -> None:
    """A thread is one client: it has one part of the GPU, one waiting mode and one form."""
    users = [(at, one) for at, one in served if uses_gpu(one)]
    for key, usual in (("partition", None), ("waiting", "suspend"), ("form", None)):
        for at, one in users:
            if one.get(key, usual) != users[0][1].get(key, usual):
                where: Where = ("task", at, key) if key in one else ("task", at)
                report.add(where, f"{key}: tasks of thread {quoted(name)} that use the GPU have one {key} together")


def thread_of_table(values: Document) -> Thread:
    """The thread that a table describes."""
    return Thread(values["name"], Order(values["order"]))


def with_thread(values: Document, threads: dict[str, Document]) -> Document:
    """The fields of a task, with those of its thread."""
    thread = threads.get(values.get("thread", ""))
    if thread is None:
        return values
    return values | {key: thread[key] for key in OF_THREAD if key in thread}
