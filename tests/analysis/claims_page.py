# SPDX-License-Identifier: GPL-2.0
"""The generated part of docs/experiments/claims.md: python tests/analysis/claims_page.py writes it from the tables.

Each table of docs/experiments is what `gpurt experiment run` wrote.  A cell says what the intervals in it say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from claims import Figure, read_rows
from sentences import ENERGY, READINGS, SENTENCES

from analysis.papers.experiments.rows import Row

FOLDER = Path(__file__).resolve().parents[2] / "docs/experiments"
PAGE = FOLDER / "claims.md"
#: Where the generated part of the page begins and ends.
BEGIN, END = "\n## sBEET\n", "\n## Without a curve\n"
#: The papers by how their experiments' names begin.
PAPERS = {"sBEET": "sbeet-", "sBEET-mg": "mg-", "GCAPS, ECRTS'24": "gcaps-",
          "GCAPS, chapter 4 of the thesis": "thesis-", "RTGPU": "rtgpu-"}  # fmt: skip


def stored(name: str) -> list[Row]:
    """The rows of an experiment's table."""
    (path,) = FOLDER.glob(f"*/{name}.csv")
    return read_rows(path)


@cache
def judged(name: str) -> list[tuple[str, str]]:
    """Each sentence about an experiment, and what was found."""
    rows = stored(name) if name in SENTENCES else []
    return [(claim.text, claim.why) for claim in (one.judge(rows) for one in SENTENCES.get(name, ()))]


def summary(experiments: Sequence[str]) -> str:
    """What the papers' sentences about these experiments' figures come to; empty if there are none."""
    cells = [why for name in experiments for text, why in judged(name) if not text.startswith("ours")]
    counts = [sum(why.startswith(word) and " of " not in why.split(";")[0] for why in cells)
              for word in ("holds", "tie", "fails")]  # fmt: skip
    words = f"{counts[0]} hold, {counts[1]} tie, {counts[2]} fail, {len(cells) - sum(counts)} in part"
    return f"{len(cells)} sentences by form or reading: {words}" if cells else ""


def generated() -> str:
    """A table for each paper."""
    parts = []
    for paper, begin in PAPERS.items():
        rows = [cell for name in SENTENCES if name.startswith(begin) for cell in judged(name)]
        lines = [f"| {text} | {why} |" for text, why in rows]
        parts += [f"\n## {paper}\n", "| sentence | found |", "|---|---|", *lines]
        if begin == "mg-":
            parts += ["", *_differences()]
    return "\n".join(parts) + "\n"


def _differences() -> Iterator[str]:
    """sbeet-mg less mg-offline, under each reading."""
    yield "sbeet-mg minus mg-offline, J of active energy a taskset, with the ends of 95 % intervals:\n"
    points = dict.fromkeys(x for _, x in Figure(stored("mg-fig3.7")).places)
    yield f"| system | reading | {' | '.join(f'U = {x:g}' for x in points)} |"
    yield "|---|---|" + "---|" * len(points)
    for name in ("mg-fig3.7", "mg-fig3.13"):
        figure = Figure(stored(name))
        for panel in dict.fromkeys(panel for panel, _ in figure.places):
            for reading, end in {**READINGS, "measured": ", measured"}.items():
                gaps = (-figure.at(panel, x, f"mg-offline{end}", ENERGY) for x in points)
                cells = " | ".join(f"{gap.value:+.1f} [{gap.low:+.1f}, {gap.high:+.1f}]" for gap in gaps)
                yield f"| {panel} | {reading} | {cells} |"


if __name__ == "__main__":
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(head + generated() + END + rest.split(END)[1], encoding="utf-8")
