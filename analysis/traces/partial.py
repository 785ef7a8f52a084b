# SPDX-License-Identifier: GPL-2.0
"""A trace that is written to disk during the recording: a file beside the file of the whole trace.

The file has all events until the recording ended, even if SIGKILL or a full disk ended it.  The reader in
analysis.traces.trace accepts the file, even if its last line is cut off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from analysis.traces.trace import ENCODER, FORMAT, PARTIAL, TASKS, TRACE_VERSION, Event, to_chrome
from gpurt.errors import FileError
from gpurt.files import regular, unwritable


class Partial:
    """The file for a trace at ``path``; there is none if the path names no regular file but, say, a pipe.

    ``failed``: why writing has stopped; empty if it has not.  ``count``: the number of events written.

    Raises:
        FileError: the file cannot be made.
    """

    def __init__(self, path: Path, meta: Mapping[str, str]) -> None:
        self.path = path.with_name(f"{path.name}.partial")
        self.failed, self.count = "", 0
        self._tracks: dict[str, int] = {}
        self._file: BinaryIO | None = None
        if regular(path):
            head = {"format": FORMAT, "version": TRACE_VERSION, **meta, PARTIAL: "yes"}
            try:
                self._file = self.path.open("wb", buffering=0)
                self._file.write(f'{{"otherData": {json.dumps(head)},\n"traceEvents": ['.encode())
            except OSError as error:
                raise unwritable(self.path, error) from None

    def add(self, events: Iterable[Event]) -> None:
        """Writes events in one write: then the kernel has them, whatever happens to this process."""
        text = "".join(self._line(event) for event in events)
        if not text or self._file is None:
            return
        try:
            self._write(self._file, text.encode())
        except OSError as error:
            self.failed = f"{self.path}: {error.strerror}; the trace is not on disk before the end"
            self._file.close()
            self._file = None

    def _line(self, event: Event) -> str:
        separator = ",\n" if self.count else "\n"
        self.count += 1
        track = self._tracks.setdefault(event.task, 10 + len(self._tracks))
        return separator + ENCODER.encode(to_chrome(event, None) | {"pid": TASKS, "tid": track})

    @staticmethod
    def _write(file: BinaryIO, data: bytes) -> None:
        while data:
            data = data[file.write(data) :]

    def over(self) -> None:
        """The whole trace is written: this file is no longer needed."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self.path.unlink(missing_ok=True)

    def kept(self, error: FileError) -> FileError:
        """The error to raise if the whole trace cannot be written."""
        if not self.count:
            return error
        left = f"{error}; what was recorded until then is in {self.path}" if os.path.exists(self.path) else str(error)
        return FileError(left)
