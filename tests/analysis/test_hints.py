# SPDX-License-Identifier: GPL-2.0
"""The commands that are offered beside a no: each has something to say of that file, and its answer is not no."""

from __future__ import annotations

import json
import random
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

from builders import cpu, ms, task, taskset
from click.testing import CliRunner
from drawn import Drawn
from related import Related

from analysis.answers.beside import Beside
from analysis.answers.judged import judge
from analysis.model import Chain
from analysis.taskset.file import parse
from gpurt.errors import TasksetError
from gpurt.types import Document
from pycontrol import cli

FILES = 30


def failing(folder: Path) -> Iterator[tuple[Path, Beside]]:
    """Random files that are not proved, each with what is said beside the no."""
    for number in count():
        text, path = (Drawn, Related)[number % 2](random.Random(f"hints {number}")).text(), folder / f"{number}.toml"
        try:
            file = parse(path, text)
        except TasksetError:
            continue
        if file.lacks or file.unmodelled or not (found := judge(path, file.taskset, terms=False).beside).helps:
            continue
        path.write_text(text)
        yield path, found


def told(path: Path, *words: str) -> Document:
    done = CliRunner().invoke(cli.cli, [*words, str(path), "--json"], standalone_mode=False)
    assert done.exception is None, (words, path.read_text())
    return dict(json.loads(done.stdout))


def test_each_command_that_is_said_to_help_has_another_answer_than_no(tmp_path: Path) -> None:
    run: Counter[str] = Counter()
    for path, beside in islice(failing(tmp_path), FILES):
        text, commands = path.read_text(), [one.partition(":")[0] for one in beside.helps if one.startswith("gpurt")]
        commands += [found for one in beside.would_hold for found in re.findall("gpurt .* --write", one.cure)]
        for command in dict.fromkeys(commands):
            found = told(path, *shlex.split(command)[1:])
            if command == "gpurt margins":  # whose verdict is on the file as it is
                assert any(one["factor"] is not None for one in found["margins"] + found["periods"]), text
            else:
                assert found["schedulable"], (command, text)
            if "--write" in command:
                assert told(path, "analyze")["schedulable"], (command, text)
                path.write_text(text)
            run[command] += 1
        for one in beside.would_hold:
            changed = one.cure.partition(" in [platform]")[0]
            path.write_text(re.sub("(?<=\\n)policy = .*", changed, text, count=1))
            assert told(path, "analyze")["schedulable"], (one, text)
            run["cure"] += 1
    assert run.keys() >= {"gpurt margins", "gpurt plan modes", "gpurt plan modes --write", "cure"}


def test_a_period_is_named_where_only_a_period_helps() -> None:
    """A chain reads what is older than its limit, however little its tasks take."""
    both = (task("a", 0, 9, 10, cpu(1)), task("b", 0, 1, 40, cpu(1)))
    tasks = tuple(replace(one, max_period=one.period) for one in both)
    limited = replace(taskset(*tasks), chains=(Chain("c", ("a", "b"), max_age=ms(45)),))
    said = judge(Path("set.toml"), limited).beside.helps
    assert said == ["gpurt margins: it says which period has to be another"]


def test_the_largest_part_is_named_where_no_change_of_one_time_helps() -> None:
    tasks = [replace(task(name, 0, priority, 10, cpu(1)), max_period=ms(10)) for name, priority in (("a", 2), ("b", 1))]
    limited = replace(taskset(*tasks), chains=(Chain("c", ("a", "b"), max_reaction=1),))
    assert judge(Path("set.toml"), limited).beside.helps == [
        "a smaller part of max_reaction (gpurt analyze --explain c); the largest is 10 ms, a: the next release"
    ]


def test_the_jitter_that_is_too_much_is_named() -> None:
    late = [replace(task(name, 0, priority, 10, cpu(2)), jitter=jitter)
            for name, priority, jitter in (("a", 3, ms(1)), ("b", 2, ms(30)), ("c", 1, 0))]  # fmt: skip
    for named in ("b", "a, b"):
        said = judge(Path("set.toml"), taskset(*late)).beside.helps[0]
        assert said == f"less jitter of {named}: without any every deadline holds"
        late[0] = replace(late[0], jitter=ms(30))
