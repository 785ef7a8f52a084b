# SPDX-License-Identifier: GPL-2.0
"""Reads the SQLite exports of Nsight Systems, schemas of 2022 to 2026.

Tables are in a file only if they have rows.  Names of calls decide what a wait is for: ``syncType`` contradicts its own
table of words in some releases.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from gpurt.errors import FileError
from gpurt.text import filename, visible
from pycontrol.recorded.store import DOWNLOAD, PAGEABLE, Recording

#: A thread of the file is a number that has its process in its upper bits.
PID, GLOBAL_PID = "(({} >> 24) & 0xffffff)", "({} & ~0xffffff)"
CALLS = """
INSERT INTO call SELECT {process}, globalTid, correlationId, base(coalesce(value, '')), start, end, {result}
FROM nsys.CUPTI_ACTIVITY_KIND_RUNTIME LEFT JOIN nsys.StringIds AS s ON s.id = nameId
"""
WORK = """
INSERT INTO work SELECT {process}, correlationId, deviceId || '/' || contextId, streamId, start, end, {kind}, {name}
FROM nsys.{table} {join}
"""
#: A wait for an event is one for its last record before the wait.  Newer exports number such pairs.
SCOPES = """
INSERT INTO scope SELECT {process}, correlationId, contextId,
  CASE WHEN streamId BETWEEN 0 AND 4294967294 THEN streamId END, NULL FROM nsys.CUPTI_ACTIVITY_KIND_SYNCHRONIZATION
"""
RECORDS = """
CREATE TEMP TABLE record AS SELECT {process} AS process, e.correlationId AS id, e.streamId AS stream, eventId AS event,
  {number} AS number, contextId AS context, c.start AS at
  FROM nsys.CUPTI_ACTIVITY_KIND_CUDA_EVENT AS e JOIN call AS c ON c.process = {process} AND c.id = e.correlationId;
CREATE INDEX temp.records ON record (process, event, at);
CREATE TEMP TABLE awaited AS SELECT {process} AS process, y.correlationId AS id,
  (SELECT r.rowid FROM record AS r WHERE r.process = {process} AND r.event = y.eventId AND r.at <= c.start
   AND r.context = y.contextId AND {same} ORDER BY r.at DESC LIMIT 1) AS chosen
  FROM nsys.CUPTI_ACTIVITY_KIND_SYNCHRONIZATION AS y JOIN call AS c ON c.process = {process} AND c.id = y.correlationId
  WHERE op(c.name) LIKE 'event%';
CREATE INDEX temp.waits ON awaited (process, id);
UPDATE scope SET (stream, record) = (SELECT r.stream, r.id FROM awaited AS a JOIN record AS r ON r.rowid = a.chosen
  WHERE a.process = scope.process AND a.id = scope.id)
WHERE EXISTS (SELECT 1 FROM awaited AS a WHERE a.process = scope.process AND a.id = scope.id);
"""
#: Push and pop, start and end; a name is in one of two columns, both in one file.
MARKS = """
INSERT INTO mark SELECT {process}, globalTid, {name}, start, end FROM nsys.NVTX_EVENTS {join}
WHERE eventType IN (59, 60) AND end IS NOT NULL AND {name} IS NOT NULL
"""
#: A thread executes from when it is scheduled in until its next row; a row in that follows a row in was lost.
RUNS = """
INSERT INTO run SELECT globalTid, start, coalesce(then_at, (SELECT max(start) FROM nsys.SCHED_EVENTS)) FROM (
  SELECT globalTid, start, isSchedIn, lead(start) OVER own AS then_at, lead(isSchedIn) OVER own AS next
  FROM nsys.SCHED_EVENTS WINDOW own AS (PARTITION BY globalTid ORDER BY start, isSchedIn))
WHERE isSchedIn AND NOT coalesce(next, 0)
"""
#: What there is to say where the file lacks a table.
LACKS = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": "CUDA calls: nsys profile --trace=cuda,nvtx",
    "NVTX_EVENTS": "where a job begins and ends: NVTX ranges, nsys profile --trace=cuda,nvtx",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "which stream or event waits are for, if the program waits",
    "SCHED_EVENTS": "when threads execute, and so whether they spin: nsys profile --cpuctxsw=process-tree",
}
LOST = re.compile(r"\b(lost|dropp|discard|overflow|incomplete)|not all .* collected|be missing", re.IGNORECASE)


def read(path: Path, told: Callable[[], None]) -> Recording:
    """Reads an export.  ``told``: called now and then.  Raises FileError if it is none."""
    recording = Recording(path, "Nsight Systems")
    recording.data.set_progress_handler(told, 1_000_000)
    try:
        recording.data.execute("COMMIT")
        recording.data.execute("ATTACH ? AS nsys", (f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1",))
        recording.data.execute("BEGIN")
        _Tables(recording).all()
        recording.finish()
    except sqlite3.Error as error:
        raise FileError(f"{filename(path)}: is no known export of Nsight Systems: {visible(error)[:100]}") from None
    return recording


class _Tables:
    """Copies the rows of the tables that are there."""

    def __init__(self, recording: Recording) -> None:
        self.recording, self.data = recording, recording.data
        self.tables = {str(name): self._columns(str(name)) for (name,) in recording.rows(
            "SELECT name FROM nsys.sqlite_master WHERE type = 'table'")}  # fmt: skip

    def _columns(self, table: str) -> set[str]:
        return {str(row[1]) for row in self.data.execute(f'PRAGMA nsys.table_info("{table}")')}

    def has(self, table: str, *columns: str) -> bool:
        """Whether the file has the table with these columns."""
        return table in self.tables and set(columns) <= self.tables[table]

    def all(self) -> None:
        """Copies everything."""
        recording = self.recording
        if not any(table.startswith(("CUPTI_ACTIVITY", "NVTX_", "META_DATA", "EXPORT_META")) for table in self.tables):
            raise FileError(f"{filename(recording.path)}: is an SQLite file, but no export of Nsight Systems")
        meta = self._said("META_DATA_EXPORT", "EXPORT_META_DATA")
        recording.made_by = f"Nsight Systems, schema {meta.get('EXPORT_SCHEMA_VERSION', 'unknown')}"
        if not self.has("StringIds"):
            self.data.execute("CREATE TEMP TABLE StringIds (id INT, value TEXT)")
        calls = "CUPTI_ACTIVITY_KIND_RUNTIME"
        if self.has(calls):
            result = "returnValue" if self.has(calls, "returnValue") else "NULL"
            self.data.execute(CALLS.format(process=PID.format("globalTid"), result=result))
            self.data.execute("CREATE INDEX ids ON call (process, id)")
        self._work()
        self._scopes()
        if self.has("NVTX_EVENTS"):
            by_id = self.has("NVTX_EVENTS", "textId")
            join = "LEFT JOIN nsys.StringIds AS s ON s.id = textId" if by_id else ""
            name = "coalesce(text, value)" if by_id else "text"
            self.data.execute(MARKS.format(process=PID.format("globalTid"), name=name, join=join))
        if self.has("SCHED_EVENTS", "isSchedIn"):
            self.data.execute(RUNS)
        if self.has("PROCESSES", "pid", "name"):
            names = self.data.execute("SELECT pid, name FROM nsys.PROCESSES WHERE pid IS NOT NULL")
            recording.names = {int(pid): str(name) for pid, name in names}
        recording.lacks += [what for table, what in LACKS.items() if not self.has(table)]
        self._lost()

    def _said(self, *tables: str) -> dict[str, str]:
        """What the file says of itself: a table of names and values, which has had two names."""
        there = [table for table in tables if self.has(table, "name", "value")]
        return {str(name): str(value) for table in there for name, value in
                self.data.execute(f"SELECT name, value FROM nsys.{table}")}  # fmt: skip

    def _work(self) -> None:
        string = "LEFT JOIN nsys.StringIds AS s ON s.id = "
        pageable = "0"
        if self.has("ENUM_CUDA_MEM_KIND", "id", "label"):
            pageable = "(SELECT id FROM nsys.ENUM_CUDA_MEM_KIND WHERE lower(label) = 'pageable')"
        copy = "CUPTI_ACTIVITY_KIND_MEMCPY"
        to = f"WHEN dstKind = {pageable} THEN '{PAGEABLE}'" if self.has(copy, "dstKind") else ""
        download = f"CASE WHEN copyKind != 2 THEN 'copy' {to} ELSE '{DOWNLOAD}' END"
        name = "demangledName" if self.has("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName") else "shortName"
        for table, kind, called, join in (
            ("CUPTI_ACTIVITY_KIND_KERNEL", "'kernel'", "value", f"{string}{name}"), (copy, download, "'copy'", ""),
            ("CUPTI_ACTIVITY_KIND_MEMSET", "'set'", "'set'", ""),
            ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "'graph'", "'graph'", ""),
        ):  # fmt: skip
            if self.has(table):
                process = PID.format("globalPid")
                self.data.execute(WORK.format(process=process, table=table, kind=kind, name=called, join=join))

    def _scopes(self) -> None:
        waits, events = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
        if not self.has(waits):
            return
        process = PID.format("globalPid")
        self.data.execute(SCOPES.format(process=process))
        if self.has(events):
            numbered = self.has(waits, "eventSyncId") and self.has(events, "eventSyncId")
            same = "(coalesce(y.eventSyncId, 0) = 0 OR r.number = y.eventSyncId)" if numbered else "1"
            number = "eventSyncId" if numbered else "NULL"
            self.data.executescript(RECORDS.format(process=process, number=number, same=same))

    def _lost(self) -> None:
        """What the profiler says against its own recording."""
        said = self._said("META_DATA_CAPTURE", "META_DATA_EXPORT").items()
        if any("CUDA_SKIP_SOME_API_CALLS" in key and value.lower() not in ("0", "false", "") for key, value in said):
            self.recording.notes.append("the profiler left out some CUDA calls: a call that is missing proves nothing")
        if self.has("DIAGNOSTIC_EVENT", "text"):
            for (text,) in self.data.execute("SELECT DISTINCT text FROM nsys.DIAGNOSTIC_EVENT"):
                if LOST.search(str(text)):
                    self.recording.against.append(f"the profiler says: {visible(text)[:200]}")
