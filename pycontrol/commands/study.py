# SPDX-License-Identifier: GPL-2.0
"""The part of command experiment that runs studies: experiments that are no curves of schedulability."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpurt.files import unwritable
from pycontrol.commands import render

if TYPE_CHECKING:
    from analysis.experiments.study import Study


def study(chosen: Study, samples: int, seed: int, output: Path, form: str) -> dict[str, Any]:
    """Runs it, writes its rows and its picture into the folder ``output``, and returns the report.

    Raises:
        FileError: a file cannot be written.
    """
    from analysis.experiments.study import write_rows

    start = time.monotonic_ns()
    try:
        output.mkdir(parents=True, exist_ok=True)
        with render.progress(chosen.size, chosen.name) as bar:
            rows = chosen.run(samples, seed, lambda: bar.update(1))
        files = [output / f"{chosen.name}.csv"]
        write_rows(rows, files[0])
        if chosen.draw:
            files.append(output / f"{chosen.name}.{form}")
            chosen.draw(rows, files[1])
    except OSError as error:
        raise unwritable(error.filename or output, error) from None
    return {
        "experiment": chosen.name, "wall_ns": time.monotonic_ns() - start, "files": files, "rows": rows,
        "left_out": [], "claims": chosen.judge(rows),
    }  # fmt: skip
