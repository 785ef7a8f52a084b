# SPDX-License-Identifier: GPL-2.0 OR MIT
"""The command ``scripts/probe-nvidia``: its options, its exit code, and where the report goes.

Exit codes: 0 a report is written; 2 wrong usage; 3 the probe cannot be compiled; 4 no GPU or no driver.  A part that
failed is a line of the report.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import probe
from gpurt.text import in_lines
from probe import report, running
from probe.parts import PARTS, WHOLE, Options
from probe.summary import Record

ROOT = Path(__file__).resolve().parent.parent.parent


def positive(value: str) -> int:
    """An argument that is a number from 1 to a million.

    Raises:
        argparse.ArgumentTypeError: it is not.
    """
    if not value.isdecimal() or not 0 < int(value) <= 10**6:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number from 1 to 1000000")
    return int(value)


def part_names(value: str) -> tuple[str, ...]:
    """Names of parts, separated by commas, in the order in which the parts run.

    Raises:
        argparse.ArgumentTypeError: no part has one of the names.
    """
    names = value.split(",")
    for name in names:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(f"no part is called {name!r}; there are {', '.join(PARTS)}")
    return tuple(name for name in PARTS if name in names)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    table = "\n".join(f"  {name:14} {part.finds}" for name, part in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="probe-nvidia",
        description=probe.__doc__,
        epilog=f"parts:\n{table}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--parts", type=part_names, default=WHOLE, metavar="A,B", help="only these")
    parser.add_argument("--calls", type=positive, default=1000, metavar="N", help="calls and jobs in part yield (1000)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/hardware", metavar="DIR", help="where reports go")
    return parser.parse_args(given)


def file_name(parts: Sequence[str], made: Record) -> str:
    """The report's name: GPU and driver.  A run of some parts adds their names, so it replaces no whole report."""
    words = [made["gpu"]["name"].removeprefix("NVIDIA "), made["driver"]["version"]]
    if tuple(parts) != WHOLE:
        words += parts
    return "-".join(re.sub(r"[^a-z0-9.]+", "-", word.lower()).strip("-") for word in words)


def write_report(options: argparse.Namespace, made: Record) -> None:
    """Writes the report, and prints it."""
    options.out.mkdir(parents=True, exist_ok=True)
    text, path = in_lines(made) + "\n", options.out / f"{file_name(options.parts, made)}.json"
    path.write_text(text)
    print(text, end="")
    print(f"probe-nvidia: wrote {path}", file=sys.stderr)


def probe_main() -> int:
    """Probes, writes the report, prints it; returns the exit code."""
    options = arguments()
    try:
        with tempfile.TemporaryDirectory(prefix="gpurt-probe-") as folder:
            wanted = Options(options.parts, options.calls)
            made = report.make_report(wanted, ["scripts/probe-nvidia", *sys.argv[1:]], Path(folder))
    except report.NoGpu as error:
        print(f"probe-nvidia: {error}", file=sys.stderr)
        return 4
    except running.CannotBuild as error:
        print(f"probe-nvidia: {error}", file=sys.stderr)
        return 3
    write_report(options, made)
    return 0
