# SPDX-License-Identifier: GPL-2.0
"""Files are written as a whole or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from gpurt.errors import FileError
from gpurt.files import check_writable, matching, written


def test_what_was_there_stays_until_the_new_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    path.chmod(0o640)

    def interrupted() -> None:
        with written(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "before"
    with written(path) as file:
        file.write(b"whole")
    assert path.read_text() == "whole"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with written(tmp_path / "file"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_a_link_leads_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    with written(tmp_path / "link") as file:
        file.write(b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"x"


def test_what_is_no_file_is_written_directly(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with written(fifo) as file:
        file.write(b"x")
    assert os.read(reader, 8) == b"x"
    os.close(reader)
    assert fifo.is_fifo()


def test_an_open_descriptor_is_written_and_not_replaced(tmp_path: Path) -> None:
    program = "from gpurt.files import written\nwith written('/dev/stdout') as file:\n    file.write(b'x')"
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == b"x"
    with (tmp_path / "out").open("wb") as out:
        subprocess.run(command, stdout=out, check=True)
        assert os.fstat(out.fileno()).st_ino == (tmp_path / "out").stat().st_ino
    assert (tmp_path / "out").read_bytes() == b"x"


@pytest.mark.parametrize("name", ["none/file", ".", "/dev/full", "x" * 300])
def test_what_cannot_be_written_is_named_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match="cannot be written: ") as caught, written(tmp_path / name) as file:
        file.write(b"x")
    assert "\n" not in str(caught.value)
    if name != "/dev/full":
        with pytest.raises(FileError, match="cannot be written: "):
            check_writable(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


WRITES = """import os, sys
from pathlib import Path
from typing import Any
from gpurt.errors import FileError
from gpurt.files import check_writable, written
if os.geteuid() == 0:
    os.setuid(65534)  # root may write everything
os.chdir(sys.argv[1])
for name in ("mine", "link"):
    for attempt in (check_writable, lambda path: written(path).__enter__()):
        try:
            attempt(Path(name))
        except FileError as error:
            print(error)
"""


def test_a_write_protected_file_is_not_replaced() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folder is closed to others
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "mine").write_text("mine")
        (folder / "mine").chmod(0o444)
        (folder / "link").symlink_to("mine")
        done = subprocess.run([sys.executable, "-c", WRITES, name], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == [f"{one}: cannot be written: Permission denied" for one in
                                            ("mine", "mine", "link", "link")]  # fmt: skip
        assert (folder / "mine").read_text() == "mine"
        assert sorted(os.listdir(folder)) == ["link", "mine"]


def test_the_check_leaves_everything_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("before")
    os.mkfifo(tmp_path / "fifo")
    for name in ("old", "new", "fifo"):
        check_writable(tmp_path / name)
    assert (tmp_path / "old").read_text() == "before"
    assert {path.name for path in tmp_path.iterdir()} == {"old", "fifo"}


def test_a_folder_that_goes_away_while_it_is_looked_through_has_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:  # fmt: skip
    for pid in "78":
        (tmp_path / pid / "task" / pid).mkdir(parents=True)
    scandir = os.scandir

    def late(path: str | int) -> Any:
        if path == str(tmp_path / "7/task"):
            shutil.rmtree(tmp_path / "7")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", late)
    assert matching(tmp_path, "[0-9]*/task/[0-9]*") == [tmp_path / "8/task/8"]
    assert not (tmp_path / "7").exists()
    assert matching(tmp_path / "none", "*") == []
