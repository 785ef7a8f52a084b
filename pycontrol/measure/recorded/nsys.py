# SPDX-License-Identifier: GPL-2.0
"""Reads the SQLite exports of Nsight Systems, schemas of 2022 to 2026.

Tables are in a file only if they have rows.  Names of calls decide what a wait is for: ``syncType`` contradicts its own
table of words in some releases.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from gpurt.errors import FileError
from gpurt.text import filename, visible
from pycontrol.measure.recorded.store import DOWNLOAD, PAGEABLE, Recording

#: A thread of the file is a number that has its process in its upper bits.
PID = "(({} >> 24) & 0xffffff)"
PAGEABLE_KIND = "(SELECT id FROM nsys.ENUM_CUDA_MEM_KIND WHERE lower(label) = 'pageable')"
CALLS = """
INSERT INTO call
SELECT {process}, globalTid, correlationId, base(CAST(coalesce(value, '') AS TEXT)), start, end, {result}
FROM nsys.CUPTI_ACTIVITY_KIND_RUNTIME LEFT JOIN StringIds AS s ON s.id = nameId;
CREATE INDEX ids ON call (process, id)
"""
WORK = """
INSERT INTO work SELECT {process}, correlationId, deviceId || '/' || contextId, streamId, start, end, {kind},
  CAST(coalesce({name}, '') AS TEXT)
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
INSERT INTO mark SELECT {process}, globalTid, CAST({name} AS TEXT), start, end FROM nsys.NVTX_EVENTS {join}
WHERE eventType IN (59, 60) AND end IS NOT NULL AND {name} IS NOT NULL
"""
#: A thread executes from when it is scheduled in until its next row; two rows "in" in sequence mean that a row "out"
#: was lost.
RUNS_SQL = """
INSERT INTO run SELECT globalTid, start, coalesce(then_at, (SELECT max(start) FROM nsys.SCHED_EVENTS)) FROM (
  SELECT globalTid, start, isSchedIn, lead(start) OVER own AS then_at, lead(isSchedIn) OVER own AS next
  FROM nsys.SCHED_EVENTS WINDOW own AS (PARTITION BY globalTid ORDER BY start, isSchedIn))
WHERE isSchedIn AND NOT coalesce(next, 0)
"""
#: The lacks of a recording, by the table that is not there.
LACKS = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": "CUDA calls: nsys profile --trace=cuda,nvtx",
    "NVTX_EVENTS": "where a job begins and ends: NVTX ranges, nsys profile --trace=cuda,nvtx",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "which stream or event waits are for, if the program waits",
    "SCHED_EVENTS": "when threads execute, and so whether they spin: nsys profile --cpuctxsw=process-tree",
}
LOST = re.compile(r"\b(lost|dropp|discard|overflow|incomplete)|not all .* collected|be missing", re.IGNORECASE)


def read_nsys(path: Path, told: Callable[[], None]) -> Recording:
    """Reads an export.  ``told``: called now and then.  Raises FileError if it is none."""
    recording = Recording(path, "Nsight Systems")
    data = recording.data
    data.set_progress_handler(told, 1_000_000)
    try:
        data.execute("COMMIT")
        data.execute("ATTACH ? AS nsys", (f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1",))
        data.execute("BEGIN")
        names = [name for (name,) in data.execute("SELECT name FROM nsys.sqlite_master WHERE type = 'table'")]
        tables = {name: {row[1] for row in data.execute(f'PRAGMA nsys.table_info("{name}")')} for name in names}
        if not any(name.startswith(("CUPTI_ACTIVITY", "NVTX_", "META_DATA", "EXPORT_META")) for name in tables):
            raise FileError(f"{filename(path)}: is an SQLite file, but no export of Nsight Systems")
        for statement in _statements(tables):
            data.executescript(statement)
        _about(recording, tables)
        recording.finish()
    except (sqlite3.Error, UnicodeError) as error:
        raise FileError(f"{filename(path)}: is no known export of Nsight Systems: {visible(error)[:100]}") from None
    return recording


def _statements(tables: Mapping[str, set[str]]) -> Iterator[str]:
    """The statements that copy the rows of the tables that are there.  ``tables``: with the names of their columns."""
    calls, waits, events = (f"CUPTI_ACTIVITY_KIND_{name}" for name in ("RUNTIME", "SYNCHRONIZATION", "CUDA_EVENT"))
    marks, copies, kernels = "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_KERNEL"
    process = PID.format("globalPid")
    if "StringIds" not in tables:
        yield "CREATE TEMP TABLE StringIds (id INT, value TEXT)"
    if calls in tables:
        yield CALLS.format(process=PID.format("globalTid"),
                           result="returnValue" if "returnValue" in tables[calls] else "NULL")  # fmt: skip
    pageable = PAGEABLE_KIND if {"id", "label"} <= tables.get("ENUM_CUDA_MEM_KIND", set()) else "0"
    to = f"WHEN dstKind = {pageable} THEN '{PAGEABLE}'" if "dstKind" in tables.get(copies, ()) else ""
    name = "demangledName" if "demangledName" in tables.get(kernels, ()) else "shortName"
    for table, kind, called, join in (
        (kernels, "'kernel'", "value", f"LEFT JOIN StringIds AS s ON s.id = {name}"),
        (copies, f"CASE WHEN copyKind != 2 THEN 'copy' {to} ELSE '{DOWNLOAD}' END", "'copy'", ""),
        ("CUPTI_ACTIVITY_KIND_MEMSET", "'set'", "'set'", ""),
        ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "'graph'", "'graph'", ""),
    ):
        if table in tables:
            yield WORK.format(process=process, table=table, kind=kind, name=called, join=join)
    if waits in tables:
        yield SCOPES.format(process=process)
        numbered = "eventSyncId" in tables[waits] & tables.get(events, set())
        same = "(coalesce(y.eventSyncId, 0) = 0 OR r.number = y.eventSyncId)" if numbered else "1"
        if events in tables:
            yield RECORDS.format(process=process, number="eventSyncId" if numbered else "NULL", same=same)
    if marks in tables:
        by_id = "textId" in tables[marks]
        yield MARKS.format(process=PID.format("globalTid"), name="coalesce(text, value)" if by_id else "text",
                           join="LEFT JOIN StringIds AS s ON s.id = textId" if by_id else "")  # fmt: skip
    if "isSchedIn" in tables.get("SCHED_EVENTS", ()):
        yield RUNS_SQL


def _about(recording: Recording, tables: Mapping[str, set[str]]) -> None:
    """Takes the file's account of itself, its lacks, and the profiler's words against its own recording."""
    said = {str(name): str(value) for table in ("META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA")
            if table in tables for name, value in recording.rows(f"SELECT name, value FROM nsys.{table}")}  # fmt: skip
    recording.made_by = f"Nsight Systems, schema {visible(said.get('EXPORT_SCHEMA_VERSION', 'unknown'))}"
    if said.get("CUDA_SKIP_SOME_API_CALLS", "0").lower() not in ("0", "false"):
        recording.notes.append("the profiler left out some CUDA calls: a call that is missing proves nothing")
    recording.lacks += [what for table, what in LACKS.items() if table not in tables]
    if {"pid", "name"} <= tables.get("PROCESSES", set()):
        rows = recording.rows("SELECT pid, name FROM nsys.PROCESSES WHERE pid IS NOT NULL")
        recording.names = {int(pid): str(name) for pid, name in rows}
    if "text" in tables.get("DIAGNOSTIC_EVENT", ()):
        for (text,) in recording.rows("SELECT DISTINCT text FROM nsys.DIAGNOSTIC_EVENT"):
            if LOST.search(str(text)):
                recording.against.append(f"the profiler says: {visible(text)[:200]}")
