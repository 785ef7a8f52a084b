# SPDX-License-Identifier: GPL-2.0
"""scripts/check-prose: which sentences it marks, and where it finds them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def marked(path: Path) -> list[str]:
    """The reasons that are printed for a file's sentences."""
    done = subprocess.run([ROOT / "scripts/check-prose", "-v", path], capture_output=True, text=True, check=True)
    return [line.split(": ")[1] for line in done.stdout.splitlines() if ": " in line]


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("The host gives the GPU to the owner.", []),
        ("Of which real-time tasks jobs may be missing.", ["begins with Of"]),
        ("Which tasks are late is said below.", ["begins with Which"]),
        ("What does the owner wait for?", []),
        ("The task which holds the lock which blocks us is late.", ["a relative clause in another"]),
        (f"The host waits{' and waits' * 12}.", ["27 words"]),
        ("```\nOf what is in a block nobody reads a sentence.\n```", []),
        ("It calls `That is code here.` and returns at once. gpurt says so.", []),
    ],
)
def test_marks(tmp_path: Path, text: str, reasons: list[str]) -> None:
    page = ROOT / "build" / f"{tmp_path.name}.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(text)
    try:
        assert marked(page) == reasons
    finally:
        page.unlink()


def test_comments_and_docstrings_are_read_and_code_is_not(tmp_path: Path) -> None:
    code = ROOT / "build" / f"{tmp_path.name}.py"
    code.parent.mkdir(exist_ok=True)
    comment = "# That is what a comment\n# says over two lines here.\n"
    code.write_text(f'"""Of what this module does."""\n\nx = "Of what a string says nothing."\n{comment}')
    try:
        assert marked(code) == ["begins with Of", "begins with That"]
    finally:
        code.unlink()
