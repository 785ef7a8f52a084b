# SPDX-License-Identifier: GPL-2.0
"""The file that keeps the runs of a measurement as they are made, so that one that was killed can go on.

Each line is a JSON document, in the disk's hands before the next run begins.  A line has the measurement's subject, the
begin of a run, its result or why it has none, or a run's files.  A last line that is not whole is dropped.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from gpurt.errors import FileError
from gpurt.files import read_whole, unwritable
from gpurt.text import filename
from gpurt.types import Document, DocumentView
from pycontrol.measure.identity import Contents, unlike
from pycontrol.measure.plan import Planned
from pycontrol.measure.run import ProfileResult
from pycontrol.measure.segments import Jobs, MeasuredJob, Segment

FORMAT, VERSION = "gpurt-profile", 3
#: Bytes of the file.
MAX_BYTES = 1 << 31
#: Why an attempt has no result if nobody was left to say it.
CUT_OFF_ATTEMPT = "gpurt was killed, or the machine went down, before it ended"


class Checkpoint:
    """The runs that are complete, in the planned order, and why others are not; in a file if ``path`` is given.

    ``results``, and ``failures``: of attempts that gave no result, "run 3: why".

    Raises:
        FileError: when the context is entered: the file is of another measurement, damaged, cannot be written, or
            another command has it.
    """

    def __init__(
        self, path: Path | None, plan: Sequence[Planned], subject: DocumentView, contents: Contents
    ) -> None:  # fmt: skip
        self.path = path
        self.results: list[ProfileResult] = []
        self.failures: list[str] = []
        self._plan, self._contents = plan, contents
        self._subject = dict(subject)
        self._file = -1

    def __enter__(self) -> Checkpoint:
        if self.path is not None:
            try:
                self._file = _opened(self.path)
                self._take_up(self.path)
            except OSError as error:
                self._close()
                raise unwritable(self.path, error) from None
            except BaseException:
                self._close()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.results:
            self.remove()
        self._close()

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def remove(self) -> None:
        """Removes the file: there is nothing to go on with, or nothing to be done."""
        if self.path is not None and self._file >= 0:
            self.path.unlink(missing_ok=True)

    # What is written

    def begin(self, number: int) -> None:
        """A run begins."""
        self._write({"begun": number})

    def add(self, result: ProfileResult, written: Sequence[str]) -> None:
        """A run is complete, and has written these files among those that it was given."""
        self.results.append(result)
        self._written(written)
        self._write({"run": result.planned.number, **packed_state(result)})

    def fail(self, number: int, why: str, written: Sequence[str] = ()) -> None:
        """A run has no result, and has written these files among those that it was given."""
        self._failed(number, why)
        self._written(written)
        self._write({"failed": number, "why": why})

    def _written(self, names: Sequence[str]) -> None:
        if names:
            self._write({"written": list(names)})

    def _write(self, line: DocumentView) -> None:
        """Appends a line.  Raises FileError if it cannot."""
        if self._file < 0:
            return
        rest = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        size = os.fstat(self._file).st_size
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, size)  # the disk is full, and another line may still come
            raise unwritable(str(self.path), error) from None

    # What is read

    def _take_up(self, path: Path) -> None:
        raw = read_whole(path, MAX_BYTES, "a checkpoint of gpurt measure times")
        whole = raw[: raw.rfind(b"\n") + 1]
        lines = whole.split(b"\n")[:-1]
        if not lines:
            if not _head_begins(raw.rstrip(b"\0")):
                raise _foreign(path)
            os.ftruncate(self._file, 0)
            about = {"subject": self._subject, "files": self._contents.hashes}
            self._write({"format": FORMAT, "version": VERSION, **about})
            _sync_folder(path)
            return
        self._check_format(path, lines[0])
        found = [_document(path, at, line) for at, line in enumerate(lines, 1)]
        self._check_subject(path, found[0], found[1:])
        begun = 0
        for at, line in enumerate(found[1:], 2):
            try:
                begun = self._read_line(line, begun)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                raise _damaged(path, at) from None
        os.ftruncate(self._file, len(whole))
        if begun:
            self.fail(begun, CUT_OFF_ATTEMPT, sorted(self._contents.outputs))

    def _check_format(self, path: Path, line: bytes) -> None:
        if not _is_head(line):
            raise _foreign(path)
        if json.loads(line).get("version") != VERSION:
            raise FileError(
                f"{filename(path)}: is of another version of gpurt; remove it to begin the measurement anew"
            )

    def _check_subject(self, path: Path, head: DocumentView, lines: Sequence[DocumentView]) -> None:
        try:
            outputs = [str(name) for each in lines for name in each.get("written", [])]
            why = unlike(head["subject"], self._subject)
            if not why:
                cut_off = self._plan[lines[-1]["begun"] - 1] if lines and "begun" in lines[-1] else None
                why = self._contents.compare(head["files"], outputs, cut_off)
        except (AttributeError, IndexError, KeyError, TypeError):
            raise _damaged(path, 1) from None
        if why:
            raise FileError(
                f"{filename(path)}: is of another measurement, which was not finished: {why}; remove it to forget that"
            )

    def _read_line(self, line: Document, begun: int) -> int:
        """Takes up a line; returns the number of the run that has begun and not ended, 0 if there is none."""
        if "written" in line:
            return begun
        if "failed" in line:
            self._failed(line["failed"], str(line["why"]))
            return 0
        if "begun" in line:
            if begun:
                self._failed(begun, CUT_OFF_ATTEMPT)
            return int(line["begun"])
        planned = self._plan[len(self.results)]
        if line["run"] != planned.number:
            raise ValueError
        self.results.append(unpacked(planned, line))
        return 0

    def _failed(self, number: int, why: str) -> None:
        self.failures.append(f"run {number}: {why}")


def _is_head(line: bytes) -> bool:
    """Whether a line is the first one of a measurement, of whatever version."""
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(head, dict) and head.get("format") == FORMAT


def _head_begins(raw: bytes) -> bool:
    """Whether a line that is not whole is the first one of a measurement, which was killed when it began."""
    start = json.dumps({"format": FORMAT}, separators=(",", ":"))[:-1].encode()
    return raw.startswith(start[: len(raw)])


def _document(path: Path, at: int, line: bytes) -> Document:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise _damaged(path, at) from None
    if not isinstance(found, dict):
        raise _damaged(path, at)
    return found


def _damaged(path: Path, at: int) -> FileError:
    return FileError(f"{filename(path)}:{at}: is damaged; remove it to begin the measurement anew")


def _foreign(path: Path) -> FileError:
    return FileError(f"{filename(path)}: is no checkpoint of gpurt measure times; name another file with -o")


def _opened(path: Path) -> int:
    """The file, open to append to, and locked.  Raises FileError: another command has it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file), os.stat(path)):
                return file
        except BlockingIOError:
            os.close(file)
            raise FileError(f"{filename(path)}: another gpurt measure times writes it; name another file") from None
        except FileNotFoundError:  # it was removed meanwhile
            pass
        os.close(file)


def _sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def packed_state(result: ProfileResult) -> Document:
    """A result as JSON; segments of jobs by their places among all."""
    places = {segment: place for place, segment in enumerate(result.segments)}
    return {
        "segments": [[*one.client, one.begin, one.end, one.priority, one.misc, one.pure, one.work, *one.least]
                     for one in result.segments],
        "jobs": [[job.cpu, job.length, [places[one] for one in job.segments]] for job in result.jobs.jobs],
        "task": result.jobs.task, "outside": result.jobs.outside,
        "apart": result.jobs.apart, "distances": result.jobs.distances, "cpu": result.cpu, "wall": result.wall,
        "beside": result.jobs.beside, "at_once": result.jobs.at_once,
    }  # fmt: skip


def unpacked(planned: Planned, line: DocumentView) -> ProfileResult:
    """The result of that run.  Raises ValueError and the like if it is none."""
    segments = tuple(_segment(one) for one in line["segments"])
    made = tuple(
        MeasuredJob(
            tuple(segments[_whole(place)] for place in places),
            *(None if time is None else _whole(time) for time in (cpu, length)),
        )
        for cpu, length, places in line["jobs"]
    )
    beside, at_once = line["beside"], line["at_once"]
    if not made or not all(isinstance(one, str) for one in (line["task"], *beside)) or type(at_once) is not bool:
        raise ValueError
    apart = None if line["apart"] is None else _whole(line["apart"])
    jobs = Jobs(made, line["task"], _whole(line["outside"]), apart, _whole(line["distances"]), tuple(beside), at_once)
    return ProfileResult(planned, jobs, segments, _whole(line["cpu"]), _whole(line["wall"]))


def _segment(values: Sequence[Any]) -> Segment:
    gpu, client, begin, end, priority, misc, pure, work, *least = values
    if type(work) is not bool or len(least) != 2:
        raise ValueError
    whole = [_whole(one) for one in (gpu, client, begin, end, priority, pure, *least)]
    return Segment((whole[0], whole[1]), whole[2], whole[3], whole[4], None if misc is None else _whole(misc),
                   whole[5], work, (whole[6], whole[7]))  # fmt: skip


def _whole(value: Any) -> int:
    """A number that is not negative."""
    if type(value) is not int or value < 0:
        raise ValueError
    return value
