# SPDX-License-Identifier: GPL-2.0
"""The inventory of papers: every row has files that name its items, or says why not; no number is left out.

The verdict on a figure is generated from what its sentences come to (claims_page.py).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from claims_page import summary

from analysis.papers.experiments import ENERGY, EXPERIMENTS, STUDIES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/experiments/inventory.md"


def numbers(kind: str, chapter: str, first: int, last: int) -> set[str]:
    return {f"{kind} {chapter}{number}" for number in range(first, last + 1)}


#: The numbered parts that each paper prints.
PRINTED = {
    "sBEET": numbers("algorithm", "", 1, 3) | numbers("figure", "2.", 1, 10) | numbers("table", "2.", 1, 2)
    | numbers("example", "", 4, 5) | {"theorem 1", "lemma 2", "definition 3"},
    "sBEET-mg": numbers("algorithm", "", 4, 5) | numbers("figure", "3.", 1, 13) | numbers("table", "3.", 1, 9)
    | numbers("example", "", 6, 9) | numbers("definition", "", 10, 11),
    "Contention-aware partitioning": numbers("algorithm", "", 1, 3) | numbers("figure", "", 1, 9)
    | numbers("lemma", "", 1, 3) | numbers("definition", "", 1, 4),
    "GCAPS, ECRTS'24": numbers("lemma", "", 1, 15) | numbers("example", "", 1, 5) | numbers("table", "", 1, 5)
    | numbers("figure", "", 1, 13) | numbers("definition", "", 1, 2) | {"algorithm 1", "listing 1"},
    "GCAPS, chapter 4 of the thesis": numbers("lemma", "", 12, 16) | numbers("lemma", "", 19, 21)
    | numbers("figure", "4.", 1, 14) | numbers("table", "4.", 1, 4) | numbers("algorithm", "", 6, 7)
    | numbers("definition", "", 17, 18) | {"listing 4.1"},
    "RTGPU": numbers("lemma", "2.", 1, 3) | numbers("lemma", "5.", 1, 5) | numbers("figure", "", 1, 14)
    | numbers("algorithm", "", 1, 2) | {"theorem 5.6", "corollary 5.6.1", "table 1"},
    "AMD GPUs, RTNS'21": numbers("figure", "", 1, 9) | numbers("table", "", 1, 2) | numbers("observation", "", 1, 5)
    | numbers("listing", "", 1, 2),
}  # fmt: skip


def tables() -> dict[str, list[tuple[str, str, str]]]:
    found: dict[str, list[tuple[str, str, str]]] = {}
    for part in PAGE.read_text().split("\n## ")[1:]:
        name, _, body = part.partition("\n")
        rows = [re.fullmatch(r"\| (.+) \| (.+) \| (.+) \|", line) for line in body.splitlines()]
        found[name] = [(row[1], row[2], row[3]) for row in rows if row and row[1] != "item"]
    return found


def test_no_number_of_a_paper_is_left_out() -> None:
    found = tables()
    assert list(found) == list(PRINTED)
    for name, rows in found.items():
        items = [item for cell, *_ in rows for item in cell.split(", ")]
        assert not PRINTED[name] - set(items), name
        assert len(items) == len(set(items)), name


def test_every_experiment_is_in_a_row() -> None:
    """Repeated experiments are found from their paper; those that are ours are named here."""
    ours = {"boosted-0us", "boosted-300us", "boosted-1000us", "mg-all-jobs"}
    named = {word for rows in tables().values() for _, where, _ in rows
             for word in re.findall(r"`gpurt experiment run ([^`]+)`", where)}  # fmt: skip
    assert {*EXPERIMENTS, *ENERGY, *STUDIES} - named == ours


#: The words that a verdict begins with, unless it is generated.
WORDS = ("repeated", "as printed", "as the text says", "corrected", "printed and sound", "holds", "in part", "no")


def test_every_verdict_is_generated_or_one_of_these_words() -> None:
    seen = set()
    for name, rows in tables().items():
        for item, where, verdict in rows:
            runs = re.findall(r"`gpurt experiment run ([^`]+)`", where)
            if said := summary(runs):
                assert verdict == said, (name, item)
            else:
                word = re.match("|".join(WORDS), verdict)
                assert word, (name, item)
                assert verdict[word.end():][:2] in ("", ": "), (name, item)
                seen.add(word[0])
    assert seen == set(WORDS)


KINDS = "algorithm|corollary|definition|example|figure|lemma|listing|observation|table|theorem"
NUMBER = r"\d+(?:[._]\d+)*"
SEPARATOR = r", and |, | and |[ _]to[ _]|-"


def named(text: str) -> set[str]:
    """The items that a text names, also in lists and ranges: "lemmas 8, 9 and 13 to 15"."""
    found = set()
    text = re.sub(r"\s+", " ", re.sub(r"\n\s*(?:#|\*|//)?", " ", text))
    kinds = rf"(?<![a-zA-Z])({KINDS})s?[ _]"
    for kind, listed in re.findall(rf"{kinds}({NUMBER}(?:(?:{SEPARATOR})(?={NUMBER}){NUMBER})*)", text, re.IGNORECASE):
        parts, previous = re.split(f"({SEPARATOR})", listed.replace("_to_", " to ")), 0
        for before, part in zip(["", *parts[1::2]], parts[::2], strict=True):
            chapter, dot, last = part.replace("_", ".").rpartition(".")
            first = previous + 1 if before in (" to ", "-") else int(last)
            found |= {f"{kind.lower()} {chapter}{dot}{number}" for number in range(first, int(last) + 1)}
            previous = int(last)
    return found


@pytest.mark.parametrize(("text", "items"), [
    ("Lemmas 8, 9 and 13 to 15", {"lemma 8", "lemma 9", "lemma 13", "lemma 14", "lemma 15"}),
    ("def test_figure_4_3_ioctl", {"figure 4.3"}), ("test_examples_6_to_7_from", {"example 6", "example 7"}),
    ("figures 3.3 to 3.4, table 2", {"figure 3.3", "figure 3.4", "table 2"}), ("the lemma", set()),
])  # fmt: skip
def test_items_are_found_in_lists_and_ranges(text: str, items: set[str]) -> None:
    assert named(text) == items


def test_a_file_of_each_row_names_its_items() -> None:
    """Experiments name their figure themselves."""
    for name, rows in tables().items():
        for item, where, _ in rows:
            words = re.findall(r"`([^`]+)`", where)
            sources = [EXPERIMENTS.get(run) or ENERGY.get(run) or STUDIES[run] for run in
                       (word.split()[3] for word in words if word.startswith("gpurt "))]  # fmt: skip
            files = [(ROOT / word).read_text() for word in words if not word.startswith("gpurt ")]
            said = named(" ".join([*files, *(re.sub(r"(?<=\d)[a-f]$", "", one.source) for one in sources)]))
            numbered = {one for one in item.split(", ") if re.match(f"(?:{KINDS}) ", one)}
            if files:
                assert numbered <= said, (name, numbered - said)


def test_every_row_has_what_exists_or_says_why_not() -> None:
    for name, rows in tables().items():
        for item, where, verdict in rows:
            words = re.findall(r"`([^`]+)`", where)
            paths = [word for word in words if not word.startswith("gpurt ")]
            assert bool(paths) != verdict.startswith("no: "), (name, item)
            assert all((ROOT / path).is_file() for path in paths), (name, item)
            commands = [word for word in words if word.startswith("gpurt experiment run ")]
            assert {word.split()[3] for word in commands} <= {*EXPERIMENTS, *ENERGY, *STUDIES}, (name, item)
