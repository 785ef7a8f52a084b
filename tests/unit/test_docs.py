# SPDX-License-Identifier: GPL-2.0
"""README.md and docs/ show what the commands print, and the commands and files that these pages name exist."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner

from gpurt.enums import Form, Tier
from pycontrol import cli
from pycontrol.commands.options import COMMON
from pycontrol.machine import drivers
from pycontrol.table import paths

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
#: The pages that people read; the manual pages are made when packages are, and have a test of their own.
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Commands whose output a page shows and no test runs, each with the reason.
NOT_RUN: dict[str, str] = {}
#: Functions of other projects that pages name and no code of ours does: the kernel's, drivers', libraries'.
FOREIGN = {
    "_GB10B", "__schedule", "acquireQueue", "amdgpu_userq_destroy", "amdgpu_userq_hang_detect_work",
    "amdgpu_userq_stop_sched_for_enforce_isolation", "amdgpu_userq_suspend", "cpuset_read_lock", "dlmopen",
    "gpumgrAllocDeviceInstance", "kchangrpapiCopyConstruct_IMPL", "kmigmgrSwizzIdToSpan_GA100", "longjmp",
    "mes_userq_preempt", "nvgpu_channel_setup_bind", "nvmlDeviceGetGpuInstanceId", "osInitNvMapping",
    "pqm_update_queue_properties", "sched_set_fifo_low",
}  # fmt: skip
#: Options of the group, before the command's name.
GLOBAL = {"--device", "--help", "--version", *(name for one in COMMON for name in (*one.opts, *one.secondary_opts))}


class Shown(NamedTuple):
    """A command that a page shows, without its comment, and the output beneath it."""

    page: str
    command: str
    output: str


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)
    return found


def sessions() -> list[Shown]:
    """Every command of every console."""
    return [
        Shown(page.name, re.sub(r"\s+#.*", "", command), output)
        for page in PAGES
        for block in blocks(page, "console")
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


def spoken() -> list[Shown]:
    """Every call of gpurt: in consoles, in indented blocks, and within sentences if it has an argument."""
    found = sessions()
    for page in PAGES:
        outside = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
        lines = re.findall(r"^    (?:sudo )?(gpurt .*)$", outside, re.MULTILINE)
        quoted = re.findall(r"`(gpurt [^`]+)`", outside)
        found += [Shown(page.name, re.sub(r"\s+#.*", "", " ".join(one.split())), "") for one in (*lines, *quoted)]
    return [one for one in found if one.command.startswith("gpurt ")]


WITH_OUTPUT = [one for one in sessions() if one.output]


@pytest.mark.parametrize("one", WITH_OUTPUT, ids=[f"{one.page}: {one.command}" for one in WITH_OUTPUT])
def test_outputs_are_what_the_commands_print(one: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    if one.command in NOT_RUN:
        pytest.skip(NOT_RUN[one.command])
    monkeypatch.chdir(ROOT)
    program, *arguments = shlex.split(one.command)
    assert program == "gpurt"
    done = CliRunner().invoke(cli.cli, arguments, standalone_mode=False)
    assert done.exception is None
    assert done.stdout.rstrip() == one.output.rstrip()


def test_what_is_not_run_is_shown() -> None:
    assert {one.command for one in WITH_OUTPUT} >= NOT_RUN.keys()


#: What computes from files alone.
OFFLINE = ("analyze", "experiment bounds", "help", "margins", "plan", "simulate")
#: Commands in indented blocks and in sentences that need more than the files of examples/, each with what.
ELSEWHERE = {
    "gpurt analyze robot.toml --measured": "a host",
    "gpurt analyze planned.toml": "what the console above wrote",
}
#: Files that a page means.
MEANT = {"F": "examples/energy/example5.toml", "FILE": "set.toml", "robot.toml": "set.toml"}


def indented(page: Path) -> list[str]:
    """The commands of indented blocks, without the remarks beside them, that compute from files; of sentences those
    that name one.
    """
    outside = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    lines = [re.split(r" {2,}| #", one)[0] for one in re.findall(r"^    (gpurt .*)$", outside, re.MULTILINE)]
    quoted = [" ".join(one.partition(" >")[0].split()) for one in re.findall(r"`(gpurt [^`]+)`", outside)]
    lines += [one for one in quoted if {*one.split()} & {"FILE", "F", "help"} or ".toml" in one]
    calls = tuple(f"gpurt {word} " for word in OFFLINE)
    return [one for one in lines if one.startswith(calls) and one not in ELSEWHERE]


WITH_INDENTED = [page for page in PAGES if indented(page)]


@pytest.mark.parametrize("page", WITH_INDENTED, ids=[page.stem for page in WITH_INDENTED])
def test_what_is_shown_or_said_answers_yes_or_no(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page: Path
) -> None:
    """In the page's order, in one folder."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    divided = text_of(ROOT / "examples/partitions.toml").replace("[platform]", '[platform]\npolicy = "segment"')
    (tmp_path / "set.toml").write_text(divided)
    monkeypatch.chdir(tmp_path)
    for command in indented(page):
        words = [MEANT.get(word, word) for word in shlex.split(command)[1:]]
        assert cli.run(words) in (0, 1), (command, capfd.readouterr().err)


def test_the_first_screen_shows_outputs() -> None:
    assert sum(one.page == README.name for one in WITH_OUTPUT) >= 3


def test_the_error_that_is_shown_is_printed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(drivers.first_host, "__defaults__", (tmp_path,))  # a machine without a GPU
    (shown,) = blocks(ROOT / "docs/output.md", "json")
    assert cli.run(["--device", "/none", "status", "--json"]) == 4
    assert json.loads(capfd.readouterr().err) == json.loads(shown)


def test_every_command_and_option_exists() -> None:
    calls = spoken()
    assert len(calls) > 40
    pages = {one.page for one in calls}
    assert pages >= {"README.md", "kernel.md", "unpatched.md", "output.md", "soundness.md", "closeness.md"}
    for one in calls:
        words = one.command.split(" -- ")[0].split()[1:]
        while words and words[0] in GLOBAL:
            words = words[2:] if words[0] == "--device" else words[1:]
        if not words:
            continue
        known, path = dict(paths()), ""
        while words and f"{path} {words[0]}".strip() in known:
            path = f"{path} {words.pop(0)}".strip()
        assert path, one
        command = cli.find_command(path)
        assert not words or words[0].startswith(("-", "[", "{")) or not isinstance(command, click.Group), one
        options = {option for known in command.params for option in known.opts} | GLOBAL
        for word in words:
            if re.fullmatch(r"--[a-z-]+(=.*)?", word.strip("[],.")):
                assert word.strip("[],.").split("=")[0] in options, one


def test_the_program_compiles_as_it_stands(tmp_path: Path) -> None:
    (program,) = blocks(ROOT / "docs/library.md", "c")
    source = tmp_path / "program.c"
    source.write_text(program)
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{ROOT}/userlib/include", "-fsyntax-only"]
    done = subprocess.run(["cc", *flags, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_path_exists(page: Path) -> None:
    for path in re.findall(r"\]\(([^)#:]+)\)", text_of(page)):
        assert (page.parent / path).exists(), path


def test_the_documents_stay_below_2_mb() -> None:
    listed = subprocess.run(["git", "ls-files", "-z", "docs"], cwd=ROOT, capture_output=True, check=True)
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    assert sum(file.stat().st_size for file in files if file.exists()) < 2_000_000


def test_contributing_names_every_page() -> None:
    tree = text_of(ROOT / "CONTRIBUTING.md").partition("## Where things are")[2].partition("\n## ")[0]
    for page in (ROOT / "docs").iterdir():
        name = f"{page.name}/" if page.is_dir() else page.name
        assert name in tree or page.suffix == ".json", name


def test_the_pages_name_what_there_is() -> None:
    """Every file and function that a page names in backticks, except functions of other projects."""
    folders = ("kmod", "userlib", "analysis", "pycontrol", "scripts", "tests")
    there = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    paths = [path for path in there if path != Path(__file__)]
    files = {path.relative_to(ROOT).as_posix() for path in paths}
    sources = [path for path in paths if path.suffix in {".c", ".h", ".hpp", ".py", ".cu", ".patch", ""}]
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in sources)
    known = set(re.findall(r"\w+", text)) | FOREIGN
    unknown = []
    for page in PAGES:
        for word in re.findall(r"`([^`\s]+)`", text_of(page)):
            if re.fullmatch(r"[\w.]+\(\)", word):
                exists = word[:-2].rpartition(".")[2] in known
            elif re.fullmatch(rf"({'|'.join(folders)})/[\w/.-]+\.(c|h|py)", word) and "NAME" not in word:
                exists = word in files
            elif page.name == "design.md" and re.fullmatch(r"[\w/]+\.(c|h|py)", word):
                exists = any(name.endswith(f"/{word}") for name in files)
            else:
                continue
            if not exists:
                unknown.append(f"{page.name}: {word}")
    assert not unknown


#: Words of gpurt's output that somebody who knows Linux need not know, and which pages link where they begin.
ABBREVIATED = re.compile(r"\b(?:MORT|WCRT|TSGs?)\b")


def test_the_page_of_words_has_each_word_of_the_tables() -> None:
    page = text_of(ROOT / "docs/manual/words.md")
    tables = re.findall(r"table\(\(([^()]*)\)", "".join(map(text_of, (ROOT / "pycontrol").rglob("*.py"))))
    heads = {word for one in tables for word in re.findall(r"\b[A-Z]{3,}s?\b", one)} - {"CPU", "GPU", "CPUs", "PID"}
    assert len(tables) > 20
    assert {"MORT", "WCRT"} <= heads
    forms = {word for one in (*Form, *Tier) for word in re.split(r"\W+", one.word)}
    missing = {word for word in heads | forms | {"epsilon", "alpha", "theta", "misc", "gate"} if word not in page}
    assert not missing


@pytest.mark.parametrize("page", [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/manual/*.md")], ids=lambda page: page.stem)
def test_abbreviations_are_links_where_a_page_uses_them_first(page: Path) -> None:
    text = re.sub(r"^```.*?^```$|^#.*$|^    .*$|`[^`]*`", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    first = ABBREVIATED.search(text)
    assert page.name == "words.md" or not first or text[first.end() :].startswith(("](words.md)", "](manual/words.md)"))
