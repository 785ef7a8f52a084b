# SPDX-License-Identifier: GPL-2.0
"""A recording in one form: calls, GPU work, scopes of waits, marks, and when threads executed.

Readers fill it.  It is a temporary SQLite database, so that memory does not grow with the recording.  Times are ns of
the recording's clock, and may be negative.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from gpurt.errors import FileError
from gpurt.text import filename

#: ``id``: relates a call to its work and to the scope of its wait; unique in a process.  ``result``: what the call
#: returned, 0 for success.  ``context``: of work its device and context, of a wait the context alone: exports of Nsight
#: Systems have device 0 in each wait.  ``record``: the call that recorded the event.
STORE_SCHEMA = """
CREATE TABLE call (process INT, thread INT, id INT, name TEXT, start INT, end INT, result INT);
CREATE TABLE work (process INT, id INT, context TEXT, stream INT, start INT, end INT, kind TEXT, name TEXT);
CREATE TABLE scope (process INT, id INT, context TEXT, stream INT, record INT);
CREATE TABLE mark (process INT, thread INT, name TEXT, start INT, end INT);
CREATE TABLE run (thread INT, start INT, end INT);
"""
#: A call that a profiler recorded twice, as one of the runtime and one of the driver, lies within itself.
TWICE = """
DELETE FROM call WHERE rowid IN (
  SELECT rowid FROM (SELECT rowid, end, row_number() OVER own AS place, first_value(end) OVER own AS longest FROM call
                     WHERE id IS NOT NULL WINDOW own AS (PARTITION BY process, id, thread ORDER BY start, end DESC))
  WHERE place > 1 AND end <= longest)
"""
#: Kinds of work: those that the host waits for where the call copies, or copies to memory that is not pinned.
DOWNLOAD, PAGEABLE = "download", "pageable download"

_VERSION = re.compile(r"(_v\d+|_ptsz|_ptds|_spt|R\d{4})+$")
#: The scopes of waits, by the names of calls without the interface's.
_OPS = {
    "DeviceSynchronize": "device", "CtxSynchronize": "device", "ThreadSynchronize": "device",
    "StreamSynchronize": "stream", "EventSynchronize": "event", "StreamQuery": "stream query",
    "EventQuery": "event query",
}  # fmt: skip


@lru_cache(maxsize=4096)
def base(name: str) -> str:
    """The name of a call without the version of its interface."""
    return _VERSION.sub("", name)


@lru_cache(maxsize=4096)
def op(name: str | None) -> str:
    """The scope that a call of CUDA or HIP waits for, by its name; "copy": for a download; "": it is no wait.

    The name decides, for profilers' own kinds of synchronisation differ between their releases.
    """
    plain = re.sub(r"^(cuda|cu|hip)(?=[A-Z])", "", base(name or ""))
    if plain.startswith("Memcpy"):
        return "async copy" if "Async" in plain else "copy"
    return _OPS.get(plain, "")


class Recording:
    """A recording of a file.

    ``made_by``: the profiler, in words.  ``resolution``: of its clock, ns.  ``notes``: what a user should know.
    ``against``: why no taskset can be made of it.  ``lacks``: what it does not say, and how to record that.
    ``names``: of processes.
    """

    def __init__(self, path: Path, made_by: str) -> None:
        self.path, self.made_by = path, made_by
        self.resolution = 1
        self.notes: list[str] = []
        self.against: list[str] = []
        self.lacks: list[str] = []
        self.names: dict[int, str] = {}
        self.data = sqlite3.connect("", isolation_level=None, uri=True)
        self.data.row_factory = sqlite3.Row
        self.data.text_factory = lambda text: text.decode("utf-8", "replace")
        self.data.create_function("base", 1, base, deterministic=True)
        self.data.create_function("op", 1, op, deterministic=True)
        self.data.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {STORE_SCHEMA} BEGIN;")

    def rows(self, query: str, *arguments: object) -> Iterator[sqlite3.Row]:
        """The rows that a query finds."""
        return iter(self.data.execute(query, arguments))

    def count(self, query: str, *arguments: object) -> int:
        """The number that a query finds; 0 for none."""
        return int(self.data.execute(query, arguments).fetchone()[0] or 0)

    def finish(self) -> None:
        """To be called when all of the file is in.  Raises FileError if it is damaged."""
        self.data.execute(TWICE)
        self.data.executescript(
            "CREATE INDEX calls ON call (process, id); CREATE INDEX scopes ON scope (process, id);"
            "CREATE INDEX works ON work (process, id); CREATE INDEX runs ON run (thread, start); ANALYZE main;"
        )
        if many := self.count("SELECT count(*) FROM work JOIN call USING (process, id)") - self.count(
                "SELECT count(*) FROM work WHERE (process, id) IN (SELECT process, id FROM call)"):  # fmt: skip
            self.against.append(f"of {many} pieces of GPU work, two calls have the id: which launched it is unknown")
        if many := self.count("SELECT count(*) FROM work WHERE process IS NULL"):
            self.against.append(f"the process of {many} pieces of GPU work is unknown: their launches are missing")
        events = " UNION ALL ".join(f"SELECT start, end FROM {table}" for table in ("call", "work", "mark", "run"))
        if many := self.count(f"SELECT count(*) FROM ({events}) WHERE 'integer' NOT IN (typeof(start), typeof(end)) "
                              "OR typeof(start) != typeof(end)"):  # fmt: skip
            raise FileError(f"{filename(self.path)}: is damaged: {many} events have no begin or no end")
        if many := self.count(f"SELECT count(*) FROM ({events}) WHERE end < start"):
            self.against.append(f"{many} events end before they begin: the clock went back")

    def processes(self) -> list[int]:
        """Those that use the GPU, or have marks."""
        found = "SELECT process FROM work UNION SELECT process FROM call UNION SELECT process FROM mark ORDER BY 1"
        return [process for (process,) in self.rows(found) if process is not None]
