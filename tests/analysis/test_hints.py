# SPDX-License-Identifier: GPL-2.0
"""The commands that are offered beside a no: each has something to say of that file, and its answer is not no."""

from __future__ import annotations

import json
import random
import shlex
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

from click.testing import CliRunner

from analysis.answers.judged import judge
from analysis.attack.drawn import Drawn
from analysis.taskset.file import parse
from gpurt.errors import TasksetError
from pycontrol import cli

FILES = 30


def failing(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Random files that are not proved, each with the commands that are said to help."""
    for number in count():
        text, path = Drawn(random.Random(f"hints {number}")).text(), folder / f"{number}.toml"
        try:
            file = parse(path, text)
        except TasksetError:
            continue
        if file.lacks or file.unmodelled or not (found := judge(path, file.taskset, terms=False).beside.helps):
            continue
        path.write_text(text)
        yield path, [one.partition(":")[0] for one in found]


def test_each_command_that_is_said_to_help_has_another_answer_than_no(tmp_path: Path) -> None:
    run: Counter[str] = Counter()
    for path, commands in islice(failing(tmp_path), FILES):
        for command in commands:
            words = [*shlex.split(command.removesuffix(" --write"))[1:], str(path), "--json"]
            done = CliRunner().invoke(cli.cli, words, standalone_mode=False)
            assert done.exception is None, (words, path.read_text())
            told = json.loads(done.stdout)
            if command == "gpurt margins":  # whose verdict is on the file as it is
                assert any(one["factor"] is not None for one in told["margins"]), path.read_text()
            else:
                assert told["schedulable"], (words, path.read_text())
            run[command] += 1
    assert run.keys() >= {"gpurt margins", "gpurt plan modes"}
