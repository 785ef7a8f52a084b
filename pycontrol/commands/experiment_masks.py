# SPDX-License-Identifier: GPL-2.0
"""The command that simulates kernels under masks: experiment masks."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import click

from analysis.papers import dispatch, timeline
from analysis.papers.dispatch import LaunchStream
from gpurt.errors import UsageError
from gpurt.files import check_writable
from gpurt.types import Document
from pycontrol.commands.mask_options import mask_of, named, target, target_options
from pycontrol.commands.options import JSON, Output, command, time_of
from pycontrol.output import render
from pycontrol.output.render import ms

#: A stream unless its words say otherwise: MM1024, a product of two matrices of 1,024 x 1,024 on a Radeon VII.
BLOCKS, THREADS, BLOCK_TIME = 1024, 1024, "345.2us"
#: A block's time varies by so much, in percent.
JITTER = 25


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt experiment masks --chip radeon-vii 0x555555555555555
  gpurt experiment masks --chip radeon-vii mm1024=0xd55555555555555 mm256=0xaaaaaaaaaaaaaaa,blocks=4096,threads=256
  gpurt experiment masks --chip radeon-vii all all,blocks=4096,threads=256 --no-cut-ahead
  gpurt experiment masks --chip radeon-vii all all,blocks=4096,threads=256 --launches 2 -o figure7.json

\b
A stream is a mask and, after commas, what differs from blocks=1024, threads=1024, time=345.2us (of a block), gap=0ns
(from a kernel's end to the next launch).  All of a block's time is taken to be compute time: memory is not simulated.

\b
Exit codes: 0 done; 2 wrong usage, or a mask that leaves no CU; 3 the topology is wrong; 4 this machine has no AMD
GPU."""
)
@click.argument("streams", nargs=-1, required=True, metavar="[NAME=]MASK[,WORD=VALUE...]...")
@click.option("--launches", default=100, show_default=True, type=click.IntRange(1, 100_000),
              help="Kernels of the first stream to wait for.")  # fmt: skip
@click.option("--jitter", default=JITTER, show_default=True, type=click.IntRange(0, 99), metavar="PERCENT",
              help="By how much the time of a block varies.")  # fmt: skip
@click.option("--seed", default=1, show_default=True, help="Same seed, same times of blocks.")
@click.option("-o", "--output", "trace_path", type=Output(),
              help="Write the threads that execute over time as a trace, for Perfetto.")  # fmt: skip
@click.option("--no-cut-ahead", is_flag=True, help="What if small blocks could not start before large ones?")
@target_options
@JSON
def masks(
    streams: tuple[str, ...], launches: int, jitter: int, seed: int, trace_path: Path | None, no_cut_ahead: bool,
    chip: str | None, topology: Path | None, gpu: int | None, kernel: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Simulate kernels under masks: how AMD's hardware deals their blocks to compute units."""
    where = target(chip, topology, gpu, kernel)
    heads, words = zip(*(text.partition(",")[::2] for text in streams), strict=True)
    given = [
        _stream(name, mask_of(text, name, where.topology), rest, jitter)
        for (name, text), rest in zip(named(heads, "MASK", "mask"), words, strict=True)
    ]
    settings = dispatch.Settings(launches, seed, not no_cut_ahead)
    if trace_path:
        check_writable(trace_path)
        if timeline.blocks(given, settings) > timeline.MAX_BLOCKS_DRAWN:
            raise UsageError(f"-o is for up to {timeline.MAX_BLOCKS_DRAWN} blocks: give fewer --launches")
    try:
        device = dispatch.dispatcher(given, where.topology, where.release)
        found = dispatch.simulate(device, given, settings)
    except dispatch.SimulationError as error:
        raise UsageError(str(error)) from None
    if trace_path:
        timeline.timeline(device, given, settings).save(trace_path)
    render.note(*where.notes, as_json=as_json)
    rows = [_row(stream, times) for stream, times in zip(given, found, strict=True)]
    data = {**where.data, "seed": seed, "cut_ahead": not no_cut_ahead, "rows": rows,
            "files": [trace_path] if trace_path else []}
    columns = ("minimum_ns", "median_ns", "mean_ns", "maximum_ns")
    table = render.table(
        ("stream", "kernels", "min ms", "median ms", "mean ms", "max ms"),
        [(row["name"], str(row["launches"]), *(ms(row[column]) for column in columns)) for row in rows],
    )
    render.emit(data, as_json, f"{where.line}\n{table}")
    return 0


def _stream(name: str, mask: int, words: str, jitter: int) -> LaunchStream:
    """A stream from the words after its mask.  Raises UsageError."""
    values = {"blocks": str(BLOCKS), "threads": str(THREADS), "time": BLOCK_TIME, "gap": "0ns"}
    for word in words.split(",") if words else ():
        key, equals, value = word.partition("=")
        if not equals or key not in values:
            listed = ", ".join(f"{one}=" for one in values)
            raise UsageError(f"{name}: expected one of {listed} after the mask, got {word[:40]!r}")
        values[key] = value
    blocks, threads = (_count(name, key, values[key]) for key in ("blocks", "threads"))
    time, gap = (time_of(values[key], f"{name}: {key}") for key in ("time", "gap"))
    shortest, longest = -(-time * (100 - jitter) // 100), time * (100 + jitter) // 100
    return LaunchStream(name, mask, blocks, threads, shortest, longest, gap)


def _count(name: str, key: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 10:
        raise UsageError(f"{name}: {key}: expected a number, got {text[:40]!r}")
    return int(text)


def _row(stream: LaunchStream, times: Sequence[int]) -> Document:
    """The row of a stream, with its observed times; the times are null if no kernel of the stream ended."""
    some = list(times) or None
    return {
        "name": stream.name, "launches": len(times), "minimum_ns": min(times, default=None),
        "maximum_ns": max(times, default=None), "mean_ns": some and round(statistics.fmean(some)),
        "median_ns": some and round(statistics.median(some)),
    }  # fmt: skip
