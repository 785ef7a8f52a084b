# SPDX-License-Identifier: GPL-2.0
"""Files on the command line: pipes are read, one exit code if a file cannot be written, and names are made visible."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from calls import Gpurt, caller, pipe, standard_input
from once import once

from pycontrol import cli

ROOT = Path(__file__).resolve().parents[2]
MINIMAL = str(ROOT / "examples/minimal.toml")
PARTS = str(ROOT / "examples/partitions.toml")
GPURT = f"{Path(sys.executable).parent}/gpurt"
#: Every command that reads files, with its arguments; words in capitals stand for files (FILES).
READERS = {
    "analyze": ["FILE"], "plan priorities": ["FILE"], "plan modes": ["FILE"], "margins": ["FILE"],
    "simulate": ["FILE", "--runs", "5"], "trace check": ["TRACE", "FILE"], "apply": ["FILE"], "run": ["FILE"],
    "watch": ["FILE"], "attack": ["TINY"],
    "plan partitions": ["PARTS"],
    "plan units": [str(ROOT / "examples/federated.toml")],
    "report": ["FILE", "--elsewhere", "-o", "PICTURE"], "experiment bounds": ["FILE", "--test", "gcaps-busy-printed"],
    "doctor": ["FILE"],
}  # fmt: skip
FILES = {
    "TINY": '[platform]\ncpus = 1\nepsilon = "0ms"\n[[task]]\nname = "a"\ncpu = 0\npriority = 1\nperiod = "2ms"\n'
            'segments = [{ cpu = "1ms" }]\n',
}  # fmt: skip
#: Every command that writes a file, to OUT.
WRITERS = {
    "simulate": ["simulate", MINIMAL, "--runs", "5", "-o", "OUT"],
    "report": ["report", MINIMAL, "--elsewhere", "-o", "OUT"],
    "experiment run": ["experiment", "run", "gcaps-fig8a", "--tasksets", "1", "--jobs", "1", "-o", "OUT"],
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def simulate(folder: Path) -> None:
        command = [GPURT, "simulate", MINIMAL, "--runs", "5", "-o", folder / "run.json"]
        subprocess.run(command, check=True, capture_output=True)

    return once(tmp_path_factory, "trace", simulate) / "run.json"


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False,
                          env={**os.environ, "GPURT_DEVICE": "/nonexistent", **environment})  # fmt: skip


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Gpurt:
    monkeypatch.setenv("GPURT_DEVICE", "/nonexistent")
    return caller(capfd)


#: Groups whose commands have tests of their own.
APART = ("plan energy", "plan masks")


def test_the_readers_are_all_of_them() -> None:
    def reads(name: str) -> bool:
        command = cli.find_command(name)
        return any(type(one.type).__name__ == "Path" and one.param_type_name == "argument" for one in command.params)

    found = {name for name in cli.LEAVES if reads(name) and not name.startswith(APART)}
    assert found | {"run"} == READERS.keys()


@pytest.mark.parametrize("name", READERS)
def test_pipes_are_read_as_files(name: str, trace: Path, tmp_path: Path, run: Gpurt) -> None:
    """Standard input as "-", and process substitution, each instead of the first file."""
    files = {"FILE": MINIMAL, "TRACE": str(trace), "PICTURE": str(tmp_path / "a.png"), "PARTS": PARTS}
    for word, text in FILES.items():
        (tmp_path / word).write_text(text)
        files[word] = str(tmp_path / word)
    content, *rest = [files.get(word, word) for word in READERS[name]]
    as_file = run(*name.split(), content, *rest)
    assert as_file[0] == {"apply": 4, "run": 4, "watch": 4, "doctor": 1}.get(name, 0)
    for way in (standard_input, pipe):
        with way(Path(content).read_bytes()) as given:
            code, out, err = run(*name.split(), given, *rest)
        assert (code, out) == as_file[:2], err


def test_a_shell_s_redirections_are_read() -> None:
    """/dev/stdin is "-" to gpurt.files, through which all commands read."""
    as_file = shell(f"{GPURT} analyze {MINIMAL}")
    for how in (f"- < {MINIMAL}", f"/dev/stdin < <(cat {MINIMAL})", f"<(cat {MINIMAL})"):
        done = shell(f"{GPURT} analyze {how}")
        assert (done.returncode, done.stdout) == (0, as_file.stdout), done.stderr


def test_messages_name_standard_input(run: Gpurt) -> None:
    with standard_input(b"[platform]\n") as given:
        code, _, err = run("analyze", given)
    assert code == 3
    assert err.startswith('gpurt: standard input:1: platform: "cpus" is missing')


@pytest.mark.parametrize("name", ["plan priorities", "plan modes"])
@pytest.mark.parametrize("way", [standard_input, pipe])
def test_a_pipe_cannot_be_written_back(name: str, way: Callable[[bytes], AbstractContextManager[str]],
                                       run: Gpurt) -> None:  # fmt: skip
    with way(Path(MINIMAL).read_bytes()) as given:
        code, _, err = run(*name.split(), "--write", given)
    assert code == 2
    assert "--write needs a file" in err


@pytest.mark.parametrize("words", [
    ("simulate", "FILE", "-o", "OUT"), ("run", "FILE", "-o", "OUT"), ("report", "FILE", "-o", "OUT"),
    ("plan energy simulate", "FILE", "-o", "OUT"),
])  # fmt: skip
def test_what_a_command_reads_it_does_not_replace(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "set.svg"  # which is also the name of a picture
    file.write_text(Path(MINIMAL).read_text())
    (tmp_path / "link.svg").symlink_to("set.svg")
    (tmp_path / "hard.svg").hardlink_to("set.svg")
    outputs = ("./new.svg",) if "new.svg" in words else ("set.svg", "./set.svg", "link.svg", "hard.svg")
    for output in outputs:
        given = [word.replace("FILE", "set.svg").replace("OUT", output) for word in words]
        assert cli.run([*given[0].split(), *given[1:]]) == 2
        assert f"{Path(output)}: this command reads or writes it already" in capsys.readouterr().err
        assert file.read_text() == Path(MINIMAL).read_text()
        assert not (tmp_path / "new.svg").exists()


def test_commands_print_through_one_function() -> None:
    """render.say() escapes what a terminal would obey; completion and schema print what is ours alone."""
    for path in (ROOT / "pycontrol/commands").glob("*.py"):
        raw = re.findall(r"click\.echo\(|\bprint\(|sys\.stdout\.write\(", path.read_text())
        assert len(raw) == {"system.py": 2}.get(path.name, 0), path


@pytest.mark.parametrize("name", WRITERS)
def test_what_cannot_be_written_has_one_exit_code(name: str, trace: Path, run: Gpurt) -> None:
    code, _, err = run(*({"OUT": "/proc/none/file.png", "TRACE": trace}.get(word, word) for word in WRITERS[name]))
    assert code == 3, err
    assert err.startswith("gpurt: /proc/none")
    assert "cannot be written: No such file or directory\n" in err


@pytest.mark.parametrize("name", ["simulate", "report"])
def test_no_file_is_named_like_stdin(
    name: str, trace: Path, tmp_path: Path, run: Gpurt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*({"OUT": "-", "TRACE": trace}.get(word, word) for word in WRITERS[name]))
    assert (code, out) == (2, "")
    assert "'-' names no file here" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["simulate", "report"])  # the others write folders
def test_a_reader_that_has_gone_ends_it_quietly(name: str, trace: Path) -> None:
    """As if by SIGPIPE: -o /dev/stdout | head."""
    words = [{"OUT": "/dev/stdout", "TRACE": str(trace)}.get(word, word) for word in WRITERS[name]]
    script = f"exec 9> >(exec sleep 0); wait $!; {' '.join([GPURT, *words])} >&9"
    done = shell(script)
    assert (done.returncode, done.stderr) == (141, "")


def test_an_encoding_without_the_letters_of_a_name_is_no_bug(tmp_path: Path) -> None:
    path = tmp_path / "\u0436.toml"
    path.write_text(Path(MINIMAL).read_text().replace("suspend", "busy"))
    done = shell(f"{GPURT} plan modes --write {path}", PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert "\\u0436.toml" in done.stdout


@pytest.mark.parametrize("as_json", [False, True])
def test_a_file_s_name_cannot_reach_the_terminal_raw(
    tmp_path: Path, as_json: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\x1b[31mred\n\xff\xe2\x80\xae.toml")
    for content in (None, "", "x = 1\n", "[platform]\ncpus = 1\n\"\\u001b[2J\" = 1\n"):
        if content is not None:
            Path(name).write_text(content)
        check = ["trace", "check", name, name]
        for command in (["analyze", name], ["plan", "modes", name], check, ["apply", name]):
            assert cli.run([*command, *(["--json"] if as_json else [])]) == 3
            out, err = capfd.readouterr()
            assert (out, all(c.isprintable() or c == "\n" for c in err)) == ("", True), err
            message = json.loads(err)["error"]["message"] if err.startswith("{") else err
            assert "\\x1b[31mred\\n\\xff\\u202e.toml" in message


def test_a_folder_that_was_removed_is_no_bug(tmp_path: Path, run: Gpurt, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for command in (["simulate", MINIMAL, "--runs", "1", "-o", "x"], ["report", MINIMAL, "--elsewhere", "-o", "x"]):
        code, _, err = run(*command)
        assert (code, err) == (3, "gpurt: x: cannot be written: No such file or directory\n")


@pytest.mark.parametrize("command", [f"simulate {MINIMAL} --runs 5", f"analyze {MINIMAL}", "status"])
def test_a_command_needs_no_stderr(command: str) -> None:
    """The shell's 2>&-: there is no place for progress and messages, and the answer is the same."""
    whole, silent = shell(f"{GPURT} {command}"), shell(f"{GPURT} {command} 2>&-")
    assert (silent.returncode, silent.stdout, silent.stderr) == (whole.returncode, whole.stdout, "")
    assert whole.returncode == (4 if command == "status" else 0)
