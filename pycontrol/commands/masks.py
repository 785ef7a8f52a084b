# SPDX-License-Identifier: GPL-2.0
"""The commands for masks of AMD's compute units: plan masks divide and check."""

from __future__ import annotations

import re

import click

from analysis.masks import lint as rules
from analysis.masks import planner
from analysis.masks.effect import effect
from analysis.masks.lint import Masked
from analysis.masks.mapping import registers, words
from analysis.masks.planner import Part, Plan, Want
from gpurt.errors import UsageError
from gpurt.types import Document
from pycontrol.commands.mask_options import Target, mask_of, named_masks, target, target_options
from pycontrol.commands.options import JSON, command
from pycontrol.output import render

_SIZE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan masks divide --chip radeon-vii vision=40 radar=20
  gpurt plan masks divide --chip radeon-vii vision=30 radar=20-24 --apart vision

\b
Exit codes: 0 there is a plan; 1 there is none; 2 wrong usage; 3 the topology is wrong; 4 this machine has no AMD
GPU."""
)
@click.argument("sizes", nargs=-1, required=True, metavar="[NAME=]CUS[-MOST]...")
@click.option("--apart", multiple=True, metavar="NAME", help="This partition shares no shader engine; may be repeated.")
@target_options
@JSON
def divide_command(
    sizes: tuple[str, ...], apart: tuple[str, ...], chip: str | None, gpu: int | None, kernel: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Divide a GPU into disjoint masks that waste no compute unit."""
    where = target(chip, gpu, kernel)
    wants = _wants(sizes, apart)
    _refuse_release(where)
    render.note(*where.notes, as_json=as_json)
    data: Document = {**where.data}
    try:
        found = planner.plan_masks(wants, where.topology, where.release)
    except planner.Impossible as none:
        render.emit({**data, "possible": False, "why": str(none), "partitions": []}, as_json, f"IMPOSSIBLE: {none}")
        return 1
    except ValueError as error:
        raise UsageError(str(error)) from None
    data |= {"possible": True, "why": None, "waste": found.waste, "proved": found.proved,
             "partitions": [_part(part, where) for part in found.parts]}  # fmt: skip
    render.emit(data, as_json, _planned(found, where))
    return 0


def _wants(sizes: tuple[str, ...], apart: tuple[str, ...]) -> list[Want]:
    """The wanted partitions.  Raises UsageError."""
    found = []
    for name, text in named_masks(sizes, "CUS", "p"):
        size = _SIZE.fullmatch(text)
        if size is None or not int(size[1]) or int(size[2] or size[1]) < int(size[1]):
            raise UsageError(f"{name}: expected CUs such as 20, or least and most such as 20-24, got {text[:40]!r}")
        found.append(Want(name, int(size[1]), name in apart, int(size[2]) if size[2] else None))
    if unknown := set(apart) - {want.name for want in found}:
        raise UsageError(f"--apart: no partition is called {min(unknown)[:40]!r}")
    return found


def _refuse_release(where: Target) -> None:
    """Raises UsageError if the release of Linux does not map bits to this chip's CUs (rule E5)."""
    for finding in rules.lint([], where.topology, where.release):
        if finding.error:
            raise UsageError(f"{finding.rule}: {finding.text}")


def _part(part: Part, where: Target) -> Document:
    return {
        "name": part.name, "wanted": part.wanted, "width": part.width, "per_engine": part.depth, "waste": part.waste,
        "on_engines": part.engines, **_mask_data(part.mask, where),
    }  # fmt: skip


def _mask_data(bits: int, where: Target) -> Document:
    """The data about a mask that every command shows: its effect, and its form for ROCm, KFD and the hardware."""
    seen = effect(bits, where.topology, where.release)
    return {
        "mask": f"{bits:#x}", "hsa_cu_mask": f"{where.gpu}:{bits:#x}" if bits else None, "words": words(bits),
        "counts": seen.counts, "effective": seen.effective, "best": seen.best,
        "registers": [[f"{word:#010x}" for word in xcc] for xcc in registers(bits, where.topology, where.release)],
    }  # fmt: skip


def _planned(found: Plan, where: Target) -> str:
    rows = [
        (part.name, str(part.wanted), str(part.effective), f"{part.width} x {part.depth}",
         " ".join(map(str, part.engines)), f"{part.effective / where.topology.units:.0%}", f"{part.mask:#x}")
        for part in found.parts
    ]  # fmt: skip
    headers = ("partition", "wanted", "effective", "engines x CUs", "on engines", "of the GPU", "GPURT_CU_MASK")
    lines = [where.line, render.table(headers, rows)]
    if not found.proved:
        lines.append("note: found by first fit; another plan may waste less")
    return "\n".join(lines)


@command(
    computes=True,
    epilog="""\b
Examples:
  gpurt plan masks check --chip mi300x all
  gpurt plan masks check --chip radeon-vii a=0xffff b=0xff

\b
Exit codes: 0 no errors (warnings are possible); 1 an error; 2 wrong usage; 3 the topology is wrong; 4 this machine has
no AMD GPU."""
)
@click.argument("masks", nargs=-1, metavar="[NAME=]MASK...")
@target_options
@JSON
def check_command(
    masks: tuple[str, ...], chip: str | None, gpu: int | None, kernel: str | None, as_json: bool
) -> int:  # fmt: skip
    """Show a GPU's shader engines, which of their compute units masks enable, and what is wrong with masks.

    Errors hang or slow down a program; docs/cu-masks.md has the rules.
    """
    where = target(chip, gpu, kernel)
    given = [Masked(name, mask_of(text, name, where.topology), text)
             for name, text in named_masks(masks, "MASK", "mask")]  # fmt: skip
    findings = rules.lint(given, where.topology, where.release)
    clean = not any(one.error for one in findings)
    shown = [{"name": one.name, **_mask_data(one.mask, where)} for one in given]
    listed = [{"rule": one.rule, "status": "fail" if one.error else "warn", "names": one.names, "text": one.text}
              for one in findings]  # fmt: skip
    render.note(*where.notes, as_json=as_json)
    lines = [where.line]
    if shown:
        rows = [(one["name"], str(sum(map(sum, one["counts"]))), str(one["effective"]), str(one["best"]), _engines(one),
                 one["mask"]) for one in shown]  # fmt: skip
        lines.append(render.table(("name", "CUs", "effective", "best", "on engines", "mask"), rows))
    for one in shown:
        words = [" ".join(xcc) for xcc in one["registers"]]
        told = words[0] if len(set(words)) == 1 else "; ".join(words)
        lines.append(f"{one['name']}: registers SE0.. {told}; HSA_CU_MASK={one['hsa_cu_mask'] or 'cannot say this'}")
    for finding in findings:
        kind, what = "ERROR" if finding.error else "warn ", ", ".join(finding.names) or where.topology.name
        lines.append(f"{finding.rule} {kind} {what}: {finding.text}")
    lines += [] if findings else ["nothing found"]
    render.emit({**where.data, "clean": clean, "findings": listed, "partitions": shown}, as_json, "\n".join(lines))
    return 0 if clean else 1


def _engines(shown: Document) -> str:
    """The CUs of each engine; per XCC if the XCCs differ."""
    texts = [" ".join(map(str, xcc)) for xcc in shown["counts"]]
    return texts[0] if len(set(texts)) == 1 else " | ".join(texts)
