# SPDX-License-Identifier: GPL-2.0
"""Files of measurements.  A line is written as soon as it is known, so that whatever ends a run costs no line."""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from analysis.energy.measured import MEASURED_COLUMNS
from gpurt.errors import FileError
from gpurt.files import unwritable
from gpurt.text import filename
from pycontrol.machine.power.sensor import Reading, Sensor, SensorKind

SAMPLE_COLUMNS = ("sensor", "time_ns", "energy_uj", "power_uw")


class Lines:
    """A CSV file that takes one line at a time; one that exists is continued.

    Raises FileError if it is not a file with these columns, or cannot be written.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path, self._columns = path, columns
        try:
            self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise unwritable(path, error) from None
        with self._guarded():
            if not self._file.seekable():  # a pipe, or a terminal
                return self._line(columns)
            size = self._file.seek(0, os.SEEK_END)
            if not size:
                return self._line(columns)
            self._file.seek(0)
            first = self._file.read(4096).split(b"\n")[0].decode("utf-8", "replace").strip()
            self._file.seek(size - 1)
            whole = self._file.read(1) == b"\n"
        if first != ",".join(columns) or not whole:
            why = "its last line is incomplete" if first == ",".join(columns) else "its first line is another one"
            self.close()
            raise FileError(f"{filename(path)}: cannot be continued: {why}; name a new file")
        return None

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise unwritable(self._path, error) from None

    def _line(self, cells: Sequence[object]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)
        with self._guarded():
            self._file.write(text.getvalue().encode())

    def add(self, row: Mapping[str, object]) -> None:
        """One more line; what the row lacks is empty."""
        self._line([row.get(column, "") for column in self._columns])

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class Record:
    """The files of a run: its measurements, and every reading.  Either may be missing."""

    def __init__(self, measurements: Path | None, samples: Path | None, sensors: Sequence[Sensor]) -> None:
        self._counters = {one.about.name for one in sensors if one.about.kind is SensorKind.COUNTER}
        self._measurements = Lines(measurements, MEASURED_COLUMNS) if measurements else None
        self._samples = Lines(samples, SAMPLE_COLUMNS) if samples else None

    def reading(self, name: str, reading: Reading) -> None:
        """A reading of a sensor."""
        if self._samples:
            value = "energy_uj" if name in self._counters else "power_uw"
            self._samples.add({"sensor": name, "time_ns": reading.at, value: reading.value})

    def measurement(self, row: Mapping[str, object]) -> None:
        """A measurement of a sensor."""
        if self._measurements:
            self._measurements.add(row)

    def close(self) -> None:
        """Closes both."""
        for lines in filter(None, (self._measurements, self._samples)):
            lines.close()
