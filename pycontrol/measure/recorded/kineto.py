# SPDX-License-Identifier: GPL-2.0
"""Reads Chrome traces of Kineto, PyTorch's profiler, event by event; of CUDA and of ROCm."""

from __future__ import annotations

import gzip
import io
import json
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from analysis.traces.trace import FORMAT, GZIP
from gpurt.errors import FileError
from gpurt.text import filename, visible
from gpurt.types import Document
from pycontrol.measure.recorded.store import DOWNLOAD, PAGEABLE, Recording

#: What a recording lacks if a table has no rows, by table; no recording of Kineto has the last one.
LACKS = {
    "scope": "which stream or event a wait is for: torch.profiler.profile(experimental_config=torch._C._profiler."
             "_ExperimentalConfig(enable_cuda_sync_events=True))",
    "mark": "where a job begins and ends: with torch.profiler.record_function('job'): ...",
    "": "when threads execute, and so whether they spin: nsys profile --cpuctxsw=process-tree records that",
}  # fmt: skip
CHUNK, LARGEST = 1 << 18, 1 << 24
WORK = {"kernel": "kernel", "Kernel": "kernel", "gpu_memcpy": "copy", "Memcpy": "copy", "gpu_memset": "set",
        "Memset": "set"}  # fmt: skip
CALLS = frozenset(("cuda_runtime", "cuda_driver", "Runtime", "hip_runtime"))
#: Ranges of CPU threads; gpu_user_annotation repeats them on the GPU's tracks.
MARKS = frozenset(("user_annotation", "nvtx"))
#: How the list of events begins; what stands between them; what traces of gpurt have before it.
BEGIN = re.compile(r'^\s*\[|"traceEvents"\s*:\s*\[')
SEPARATORS = frozenset(" \t\r\n,")
OURS = re.compile(rf'^[^\[]*"format": "{FORMAT}"')
#: Fractions stay text: a time of 16 digits before the point does not fit a float.
DECODER = json.JSONDecoder(parse_float=str)
#: The profiler's own wait ends its recording, after the last launch and the last mark.
OWN_WAIT_SQL = """
UPDATE call SET name = 'the profiler''s own ' || name WHERE rowid IN (
  SELECT rowid FROM call AS own WHERE op(name) = 'device' AND NOT EXISTS (
    SELECT 1 FROM call AS other WHERE other.process = own.process AND other.start > own.start
    AND (op(other.name) = 'device' OR other.id IN (SELECT id FROM work))))
"""


def read_kineto(path: Path, raw: io.BufferedReader, told: Callable[[], None]) -> Recording:
    """Reads a Chrome trace.  ``told``: called now and then, to show how far it is.  Raises FileError if it is none."""
    zipped = raw.peek(2).startswith(GZIP)
    source: BinaryIO = gzip.GzipFile(fileobj=raw) if zipped else raw  # type: ignore[assignment]
    recording = Recording(path, "PyTorch's profiler (Kineto)")
    adder = _Adder(recording)
    try:
        for number, event in enumerate(_events(path, io.TextIOWrapper(source, encoding="utf-8-sig"))):
            if number % 4096 == 0:
                told()
            adder.add(event)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, RecursionError) as error:
        raise FileError(f"{filename(path)}: is damaged or was cut off: {visible(error)[:100]}") from None
    adder.finish()
    return recording


def _events(path: Path, file: TextIO) -> Iterator[object]:
    """The events of a file that is an object with ``traceEvents``, or a list of them."""
    text = ""
    while (begin := BEGIN.search(text)) is None:
        if len(text) > LARGEST or not (piece := file.read(CHUNK)):
            raise FileError(f"{filename(path)}: has no traceEvents: it is not a Chrome trace, or was cut off")
        text += piece
    if OURS.search(text):
        raise FileError(f"{filename(path)}: is a trace of gpurt, for `gpurt trace check` and `init --trace`")
    at = begin.end()
    while True:
        while text[at : at + 1] in SEPARATORS:
            at += 1
        if text[at : at + 1] == "]":
            return
        try:
            event, at = DECODER.raw_decode(text, at)
        except ValueError as error:
            if len(text) - at > LARGEST or not (piece := file.read(CHUNK)):
                where = f"{filename(path)}: is not a complete JSON file (cut off?)"
                raise FileError(f"{where}: {visible(error)[:100]}") from None
            text, at = text[at:] + piece, 0
            continue
        yield event


def ns(us: object) -> int:
    """A time in us, as a decimal of any number of digits, in ns.  Raises ValueError if it is none."""
    if isinstance(us, int):
        return us * 1000
    whole, _, rest = str(us).partition(".")
    if "e" in rest.lower() or "e" in whole.lower():
        return round(float(str(us)) * 1000)
    fraction = int((rest + "000")[:3])
    return int(whole) * 1000 + (-fraction if whole.startswith("-") else fraction)


class _Adder:
    """Takes the events of a file."""

    def __init__(self, recording: Recording) -> None:
        self.recording, self.fractions = recording, False
        self.execute = recording.data.execute

    def add(self, event: object) -> None:
        """Takes an event; those that say nothing of jobs and GPU work are left."""
        try:
            if not isinstance(event, dict):
                raise TypeError("is no object")
            kind, category = event.get("ph"), event.get("cat")
            if kind == "X":
                self._interval(event, category)
            elif kind == "M" and event.get("name") == "process_name" and isinstance(event["pid"], int):
                self.recording.names[event["pid"]] = str(event["args"]["name"])
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, sqlite3.Error) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            raise FileError(f"{filename(self.recording.path)}: an event {visible(what)[:100]}") from None

    def _interval(self, event: Document, category: str | None) -> None:
        name = str(event.get("name", ""))
        step = name.startswith("ProfilerStep#") and category != "gpu_user_annotation"
        if not (category in WORK or category in CALLS or category in MARKS or category == "cuda_sync" or step):
            return
        self.fractions = self.fractions or isinstance(event["ts"], str)
        start = ns(event["ts"])
        end, more = start + ns(event["dur"]), event.get("args") or {}
        if category in WORK:
            kind = WORK[category]
            if kind == "copy" and "DtoH" in name:
                kind = PAGEABLE if "-> Pageable" in name else DOWNLOAD
            place = f"{more.get('device', event['pid'])}/{more.get('context', 0)}"
            stream = more.get("stream", event["tid"])
            self.execute("INSERT INTO work VALUES (NULL,?,?,?,?,?,?,?)",
                         (more.get("correlation"), place, stream, start, end, kind, name))  # fmt: skip
        elif category in CALLS:
            self.execute("INSERT INTO call VALUES (?,?,?,?,?,?,NULL)",
                         (event["pid"], event["tid"], more.get("correlation"), name, start, end))  # fmt: skip
        elif category == "cuda_sync":
            self._scope(more)
        else:
            self.execute("INSERT INTO mark VALUES (?,?,?,?,?)", (event["pid"], event["tid"], name, start, end))

    def _scope(self, more: Document) -> None:
        """The scope of a wait; for an event the stream, and the call that recorded it."""
        record = more.get("wait_on_cuda_event_record_corr_id")
        stream = more.get("wait_on_stream", more.get("stream"))
        known = isinstance(stream, int) and 0 <= stream < 2**32 - 1
        self.execute("INSERT INTO scope VALUES (NULL,?,?,?,?)",
                     (more.get("correlation"), more.get("context"), stream if known else None,
                      record if isinstance(record, int) and record > 0 else None))  # fmt: skip

    def finish(self) -> None:
        """Tells work and scopes to the process whose call has their id."""
        recording = self.recording
        recording.resolution = 1 if self.fractions else 1000
        self.execute("CREATE INDEX ids ON call (id)")
        several = "SELECT id FROM call GROUP BY id HAVING min(process) < max(process)"
        if many := recording.count(f"SELECT count(*) FROM work WHERE id IN ({several})"):
            recording.against.append(f"the file joins processes, and {many} pieces of work may be of either: give each "
                                     "process's own file")  # fmt: skip
        for table in ("work", "scope"):
            self.execute(f"UPDATE {table} SET process = (SELECT call.process FROM call WHERE call.id = {table}.id)")
        if len(only := recording.processes()) == 1:
            self.execute("UPDATE work SET process = ? WHERE process IS NULL", only)
        self.execute(OWN_WAIT_SQL)
        recording.finish()
        recording.lacks += [what for table, what in LACKS.items() if not table or not recording.count(
            f"SELECT count(*) FROM {table}")]  # fmt: skip
