# SPDX-License-Identifier: GPL-2.0
"""The part of command experiment that runs studies: experiments that are no curves of schedulability."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpurt.errors import UsageError
from gpurt.files import unwritable
from pycontrol.commands import render

if TYPE_CHECKING:
    from analysis.experiments.study import Study


def study(chosen: Study, samples: int, seed: int, output: Path, form: str) -> dict[str, Any]:
    """Runs it, writes its rows and its picture into the folder ``output``, and returns the report.

    Raises:
        FileError: a file cannot be written.
        UsageError: so many samples cannot be simulated.
    """
    from analysis.experiments.study import write_rows
    from analysis.masks.dispatch import SimulationError

    start = time.monotonic_ns()
    try:
        output.mkdir(parents=True, exist_ok=True)
        with render.progress(chosen.size, chosen.name) as bar:
            rows = chosen.run(samples, seed, lambda: bar.update(1))
        files = [output / f"{chosen.name}.csv"]
        write_rows(rows, files[0], chosen.columns)
        if chosen.draw:
            files.append(output / f"{chosen.name}.{form}")
            chosen.draw(rows, files[1])
    except SimulationError as error:
        raise UsageError(f"--tasksets {samples}: {error}") from None
    except OSError as error:
        raise unwritable(error.filename or output, error) from None
    claims = {"claims": chosen.judge(rows)} if chosen.judge else {}
    return {**report(chosen.name, start, files, rows), **claims}


def report(
    name: str, start: int, files: list[Path], rows: Iterable[Mapping[str, Any]], left_out: Sequence[str] = ()
) -> dict[str, Any]:  # fmt: skip
    """What is told of an experiment.  ``start``: when it began, ns.  ``left_out``: curves without a test."""
    told = [{key if key != "schedulable" else "schedulable_tasksets": value for key, value in row.items()}
            for row in rows]  # fmt: skip
    return {"experiment": name, "wall_ns": time.monotonic_ns() - start, "files": files, "rows": told,
            "left_out": list(left_out)}  # fmt: skip
