# SPDX-License-Identifier: GPL-2.0
"""Random files with every key: each analysing command answers or names what is wrong, and none contradicts another.

Here a few files; GPURT_LONG=1 takes a hundred times as many.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from calls import Gpurt, caller
from file_sets import Drawn

FILES = 600 if os.environ.get("GPURT_LONG") else 6


class Asked:
    """The answers of commands about one file: exit codes and documents."""

    def __init__(self, gpurt: Gpurt, file: Path, text: str) -> None:
        self.gpurt, self.file, self.text = gpurt, file, text

    def __call__(self, command: str, *words: object) -> tuple[int, dict[str, Any]]:
        code, out, err = self.gpurt(command, *words, "--json")
        assert code in (0, 1, 2, 3), (command, code, err, self.text)
        assert "Traceback" not in err, (command, err, self.text)
        told = json.loads(out) if code < 2 else json.loads(err.splitlines()[-1])
        assert code < 2 or told["error"]["message"], (command, self.text)
        return code, told


def with_more(rng: random.Random, text: str) -> str:
    """The file with keys that the generator of files does not draw."""
    if rng.random() < 0.3:
        text = text.replace("[platform]\n", f'[platform]\nregion = "{rng.choice([0, 1, 7])}ns"\n', 1)
    if rng.random() < 0.2:
        text = text.replace('policy = "', 'policy = "federated" # "', 1)
    if rng.random() < 0.2 and '"t1"' in text:
        cpu = text.index("cpu = ", text.index('name = "t0"'))
        text += f'[[thread]]\nname = "executor"\n{text[cpu : text.index(chr(10), cpu)]}\norder = "fifo"\n'
    return text


@pytest.mark.parametrize("number", range(FILES))
def test_commands_answer_and_agree(capfd: pytest.CaptureFixture[str], tmp_path: Path, number: int) -> None:
    rng = random.Random(f"commands {number}")
    text = with_more(rng, Drawn(rng).text())
    file, trace = tmp_path / "set.toml", tmp_path / "run.json"
    file.write_text(text, encoding="utf-8")
    ask = Asked(caller(capfd), file, text)
    code, answer = ask("analyze", file)
    codes = {name: ask(name, file, *more)[0] for name, more in (
        ("report", ("--elsewhere", "-o", tmp_path / "page.html")), ("sensitivity", ()),
    )}  # fmt: skip
    assert set(codes.values()) == {code}, (codes, code, text)
    rows = ask("analyze", file, "--all")
    assert rows[0] == code, text
    if code < 2:
        row = {test["test"]: test["schedulable"] for test in rows[1]["tests"]}
        for test in answer["tests"]:
            assert row.get(test["test"], test["schedulable"]) == test["schedulable"], text
    chosen, assigned = ask("choose", file), ask("assign", file)
    if code == 0:
        assert (chosen[0], assigned[0]) in ((0, 0), (0, 2), (2, 0), (2, 2)), (chosen, assigned, text)
    for command in ("partition", "admit", "slices"):
        ask(command, file)
    seen, simulated = ask("simulate", file, "--offsets", 2, "--seed", number, "--trace", trace)
    if seen < 2:
        assert seen == 0 or code != 0, (simulated, text)
        judged, told = ask("check", trace, file)
        if judged < 2:
            broken = [one for one in told["findings"] if one["sort"] == "assumption"]
            assert not broken, (broken, text)
