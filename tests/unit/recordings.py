# SPDX-License-Identifier: GPL-2.0
"""Recordings as profilers write them: Kineto's Chrome trace, and Nsight Systems' export in the published schemas.

A `Made` has calls, GPU work, waits, ranges and rows of the scheduler, times in ns.  Both writers take the same one.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

PROCESS, STREAM, DEVICE, CONTEXT = 100, 7, 0, 1
#: Columns of the published schemas: those after a bar may be NULL, those in brackets came after the schema of 2022.
SCHEMA = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass nameId returnValue | globalTid correlationId callchainId",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start end deviceId contextId streamId demangledName shortName | correlationId "
    "globalPid mangledName graphNodeId [greenContextId]",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start end deviceId contextId streamId bytes copyKind | correlationId globalPid "
    "srcKind dstKind graphNodeId [greenContextId] [copyCount]",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start end deviceId contextId streamId syncType eventId | correlationId "
    "globalPid [greenContextId] [deprecatedSyncType] [eventSyncId]",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "deviceId contextId streamId eventId | correlationId globalPid [eventSyncId]",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start end deviceId contextId streamId graphId graphExecId | correlationId "
    "globalPid",
    "NVTX_EVENTS": "start eventType | end text textId globalTid domainId",
    "SCHED_EVENTS": "start cpu isSchedIn | globalTid",
    "StringIds": "id value |",
    "ENUM_CUPTI_SYNC_TYPE": "id name | label",
    "ENUM_CUDA_MEM_KIND": "id name | label",
    "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text | globalPid",
    "META_DATA_EXPORT": "name | value",
    "META_DATA_CAPTURE": "name | value",
    "EXPORT_META_DATA": "name | value",
}
MEMORY = ("Pageable", "Pinned", "Device")


@dataclass
class Made:
    """What a program did.  Each method returns the id of its call."""

    process: int = PROCESS
    calls: list[dict[str, Any]] = field(default_factory=list)
    works: list[dict[str, Any]] = field(default_factory=list)
    scopes: list[dict[str, Any]] = field(default_factory=list)
    ranges: list[tuple[str, int, int, int]] = field(default_factory=list)
    runs: list[tuple[int, int, int]] = field(default_factory=list)
    first: int = 1

    def call(self, name: str, start: int, end: int, thread: int = PROCESS, result: int = 0) -> int:
        number = self.first + len(self.calls)
        self.calls.append({"name": name, "start": start, "end": end, "thread": thread, "result": result, "id": number})
        return number

    def work(self, number: int, start: int, end: int, kind: str = "kernel", **where: int) -> None:
        """GPU work: a kernel's name, or "HtoD" or "DtoH" with the kind of memory of the host."""
        self.works.append({"id": number, "start": start, "end": end, "kind": kind, "stream": STREAM, "device": DEVICE,
                           "context": CONTEXT} | where)  # fmt: skip

    def launch(self, start: int, end: int, begun: int, done: int, thread: int = PROCESS, **where: int) -> int:
        number = self.call("cudaLaunchKernel", start, end, thread)
        self.work(number, begun, done, **where)
        return number

    def wait(self, start: int, end: int, name: str = "cudaDeviceSynchronize", thread: int = PROCESS, result: int = 0,
             stream: int | None = None, record: int | None = None, told: bool = True,
             context: int = CONTEXT) -> int:  # fmt: skip
        """``told``: whether the file says what the wait is for, as far as ``stream`` and ``record`` have it."""
        number = self.call(name, start, end, thread, result)
        if told:
            self.scopes.append({"id": number, "stream": stream, "record": record, "start": start, "end": end,
                                "name": name, "context": context})  # fmt: skip
        return number

    def record(self, start: int, end: int, stream: int = STREAM) -> int:
        number = self.call("cudaEventRecord", start, end)
        self.scopes.append({"id": number, "stream": stream, "recorded": True, "start": start, "end": end})
        return number

    def range(self, name: str, start: int, end: int, thread: int = PROCESS) -> None:
        self.ranges.append((name, start, end, thread))


def us(time: int, whole: bool = False) -> Decimal | int:
    return time // 1000 if whole else Decimal(time) / 1000


def kineto_events(made: Made, whole: bool = False) -> list[dict[str, Any]]:
    """The events as Kineto writes them: work comes before its launch."""

    def timed(one: dict[str, Any]) -> dict[str, Any]:
        start, end = us(one["start"], whole), us(one["end"], whole)
        return {"ts": start, "dur": end - start}

    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": made.process, "tid": 0, "ts": 0, "args": {"name": "robot"}},
    ]
    for one in made.works:
        kind, memory = one["kind"], one.get("memory", "Pageable")
        copies = {"DtoH": f"Memcpy DtoH (Device -> {memory})", "HtoD": f"Memcpy HtoD ({memory} -> Device)"}
        found.append({"ph": "X", "cat": "gpu_memcpy" if kind in copies else "kernel", "name": copies.get(kind, kind),
                      "pid": one["device"], "tid": one["stream"], **timed(one),
                      "args": {"device": one["device"], "context": one["context"], "stream": one["stream"],
                               "correlation": one["id"]}})  # fmt: skip
    for one in made.scopes:
        if one.get("recorded"):
            continue
        record = next((scope for scope in made.scopes if scope["id"] == one["record"]), None)
        event = {"wait_on_stream": record["stream"] if record else -1,
                 "wait_on_cuda_event_record_corr_id": one["record"] if record else -1}  # fmt: skip
        found.append({"ph": "X", "cat": "cuda_sync", "name": "sync", "pid": DEVICE, "tid": -1, **timed(one), "args": {
            "stream": -1 if one["stream"] is None else one["stream"], "correlation": one["id"], "device": DEVICE,
            "context": one["context"], **(event if "Event" in one["name"] else {})}})  # fmt: skip
    for one in made.calls:
        found.append({"ph": "X", "cat": "cuda_runtime", "name": one["name"], "pid": made.process, "tid": one["thread"],
                      **timed(one), "args": {"cbid": 1, "correlation": one["id"]}})  # fmt: skip
    for name, start, end, thread in made.ranges:
        for pid, category in ((made.process, "user_annotation"), (DEVICE, "gpu_user_annotation")):
            found.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": thread,
                          **timed({"start": start, "end": end}), "args": {}})  # fmt: skip
    return found


def kineto(path: Path, *those: Made, whole: bool = False) -> Path:
    """A Chrome trace of Kineto; gzipped if it is named so."""
    events = [event for made in those for event in kineto_events(made, whole)]
    text = _dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events, "traceName": "x"})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def _dumps(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {_dumps(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",\n".join(map(_dumps, value)) + "]"
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value)


class Nsys:
    """An export: tables are made when they get their first row, with the columns that were published."""

    def __init__(self, path: Path, newest: bool = True) -> None:
        self.data = sqlite3.connect(path)
        self.newest, self.tables, self.strings = newest, set[str](), dict[str, int]()

    def row(self, table: str, **values: Any) -> None:
        if table not in self.tables:
            needed, _, more = SCHEMA[table].partition("|")
            more = " ".join(word.strip("[]") for word in more.split() if self.newest or not word.startswith("["))
            columns = [f'"{word}" NOT NULL' for word in needed.split()] + [f'"{word}"' for word in more.split()]
            self.data.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            self.tables.add(table)
        names = ", ".join(f'"{name}"' for name in values)
        self.data.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(values))})", [*values.values()])

    def string(self, text: str) -> int:
        if text not in self.strings:
            self.strings[text] = len(self.strings) + 1
            self.row("StringIds", id=self.strings[text], value=text)
        return self.strings[text]


def nsys(path: Path, *those: Made, newest: bool = True) -> Path:
    """An export of Nsight Systems, in the schema of 2026, or of 2022."""
    file = Nsys(path, newest)
    for at, word in enumerate(MEMORY):
        file.row("ENUM_CUDA_MEM_KIND", id=at, name=word.upper(), label=word)
    table, version = ("META_DATA_EXPORT", "3.25") if newest else ("EXPORT_META_DATA", "2.9")
    file.row(table, name="EXPORT_SCHEMA_VERSION", value=version)
    for made in those:
        _nsys_calls(file, made)
        _nsys_work(file, made)
        _nsys_waits(file, made)
        for number, (name, start, end, thread) in enumerate(made.ranges):
            text = {"text": name} if number % 2 else {"textId": file.string(name)}
            file.row("NVTX_EVENTS", start=start, end=end, eventType=59, globalTid=made.process << 24 | thread, **text)
        for thread, start, end in made.runs:
            for on, at in ((1, start), (0, end)):
                file.row("SCHED_EVENTS", start=at, cpu=0, isSchedIn=on, globalTid=made.process << 24 | thread)
    file.data.commit()
    file.data.close()
    return path


def _nsys_calls(file: Nsys, made: Made) -> None:
    for one in made.calls:
        file.row("CUPTI_ACTIVITY_KIND_RUNTIME", start=one["start"], end=one["end"], eventClass=0,
                 correlationId=one["id"], globalTid=made.process << 24 | one["thread"],
                 nameId=file.string(f"{one['name']}_v3020"), returnValue=one["result"])  # fmt: skip


def _nsys_work(file: Nsys, made: Made) -> None:
    for one in made.works:
        place = {"start": one["start"], "end": one["end"], "deviceId": one["device"], "contextId": one["context"],
                 "streamId": one["stream"], "correlationId": one["id"], "globalPid": made.process << 24}  # fmt: skip
        if one["kind"] in ("DtoH", "HtoD"):
            host, down = MEMORY.index(one.get("memory", "Pageable")), one["kind"] == "DtoH"
            file.row("CUPTI_ACTIVITY_KIND_MEMCPY", **place, bytes=1, copyKind=2 if down else 1,
                     srcKind=2 if down else host, dstKind=host if down else 2)  # fmt: skip
        else:
            name = file.string(one["kind"])
            file.row("CUPTI_ACTIVITY_KIND_KERNEL", **place, demangledName=name, shortName=name)


def _nsys_waits(file: Nsys, made: Made) -> None:
    for one in made.scopes:
        record = one["id"] if one.get("recorded") else one.get("record") or 0
        place = {"deviceId": 0, "contextId": one.get("context", CONTEXT),  # the device is wrong, as in real exports
                 "correlationId": one["id"], "globalPid": made.process << 24,
                 "streamId": 2**32 - 1 if one["stream"] is None else one["stream"], "eventId": record}  # fmt: skip
        numbered = {"eventSyncId": record} if file.newest else {}
        if one.get("recorded"):
            file.row("CUPTI_ACTIVITY_KIND_CUDA_EVENT", **place, **numbered)
        else:  # the type contradicts the name of the call, as in some releases
            file.row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", **place, **numbered, start=one["start"], end=one["end"],
                     syncType=1)  # fmt: skip
