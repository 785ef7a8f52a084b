# SPDX-License-Identifier: GPL-2.0
"""The checkpoint of `gpurt measure times`: cut off or damaged anywhere, of another measurement, on a full disk."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpurt.errors import FileError, RuntimeFailure
from pycontrol.measure.checkpoint import CUT_OFF_ATTEMPT, Checkpoint, packed_state, unpacked
from pycontrol.measure.conditions import Condition, Here
from pycontrol.measure.identity import Contents, identity
from pycontrol.measure.plan import Planned
from pycontrol.measure.run import ProfileOptions, ProfileResult
from pycontrol.measure.segments import Jobs, MeasuredJob, Segment

PLAN = [Planned(at, Condition.QUIET, given) for at, given in enumerate(("a", "b", "a"), 1)]
times = st.integers(0, 2**62)
segments = st.builds(Segment, st.tuples(times, times), times, times, st.integers(0, 99), st.none() | times, times,
                     st.booleans(), st.tuples(times, times))  # fmt: skip


@st.composite
def results(draw: st.DrawFn) -> ProfileResult:
    found = draw(st.lists(segments, min_size=1, max_size=4, unique=True))
    inside = found[: draw(st.integers(1, len(found)))]
    made = (MeasuredJob(tuple(inside), draw(st.none() | times), draw(st.none() | times)), MeasuredJob((inside[0],), 3))
    return ProfileResult(
        PLAN[0], Jobs(made, draw(st.text(max_size=9)), draw(times), beside=tuple(draw(st.lists(st.text(max_size=9)))),
                      at_once=draw(st.booleans())), tuple(found), draw(times), draw(times)
    )  # fmt: skip


@given(results())
def test_a_result_is_read_as_it_was_written(result: ProfileResult) -> None:
    assert unpacked(result.planned, packed_state(result)) == result


def result(number: int) -> ProfileResult:
    one = Segment((0, 1), number, 2 * number, 5, 3, 4, True, (1, 2))
    return ProfileResult(PLAN[number - 1], Jobs((MeasuredJob((one,), 7),), "eye", 1), (one,), 8, 9)


def open_(path: Path | None) -> Checkpoint:
    options, here = ProfileOptions(["true"]), Here([], None)
    return Checkpoint(path, PLAN, identity(PLAN, options, here), Contents(PLAN, options, here))


def two_runs(path: Path) -> bytes:
    """A measurement that was killed in its third run, after a second that failed once: the file."""
    with open_(path) as store:
        store.begin(1)
        store.add(result(1), [])
        store.begin(2)
        store.fail(2, "ended with status 7")
        store.begin(2)
        store.add(result(2), ["log"])
        store.begin(3)
    return path.read_bytes()


def test_what_was_cut_off_anywhere_has_all_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "c"
    whole = two_runs(path)
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    assert len(ends) == 9
    sizes = {end + off for end in (0, *ends) for off in (-40, -1, 0, 1, 20)}
    for size in sizes & {*range(len(whole) + 1)}:
        lines = sum(end <= size for end in ends)
        for tail in (b"", b"\0" * 9):  # some file systems leave zeros after a power failure
            path.write_bytes(whole[:size] + (b"" if size in ends else tail))
            with open_(path) as store:
                assert store.results == [result(1), result(2)][: (lines >= 3) + (lines >= 8)]
                failed = ["run 2: ended with status 7"] if lines >= 5 else []
                cut = {2: "1", 4: "2", 6: "2", 7: "2", 9: "3"}.get(lines)
                assert store.failures == [*failed, *([f"run {cut}: {CUT_OFF_ATTEMPT}"] if cut else [])]
                after = len(store.results) + 1
                if lines >= 3:
                    store.begin(after)
                    store.add(result(after), [])
            if lines >= 3:
                with open_(path) as store:  # what was appended stands in lines of its own
                    assert store.results == [result(at + 1) for at in range(after)]
            path.unlink(missing_ok=True)


def test_damage_is_one_line_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "c"
    whole = two_runs(path)
    lines = whole.splitlines(keepends=True)
    result_line = lines[2]
    for at, damaged in (
        (2, result_line.replace(b'"run":1', b'"run":2')), (2, result_line.replace(b"[", b"{", 1)),
        (2, b"null\n"), (2, b"[]\n"), (2, b"{}\n"), (2, b"\0\n"), (2, b"[" * 100_000 + b"\n"),
        (2, result_line.replace(b"true", b"1")), (2, result_line.replace(b'"cpu":8', b'"cpu":-8')),
        (2, result_line.replace(b'"cpu":8', b'"cpu":8.5')), (2, result_line.replace(b"[7,null,[0]]", b"[7,null,[1]]")),
        (2, result_line.replace(b"[[7,null,[0]]]", b"[]")), (7, lines[7].replace(b'"run":2', b'"run":9')),
    ):  # fmt: skip
        path.write_bytes(b"".join([*lines[:at], damaged, *lines[at + 1 :]]))
        before = path.read_bytes()
        assert before != whole
        with pytest.raises(FileError, match=rf"c:{at + 1}: is damaged; remove it"), open_(path):
            pass
        assert path.read_bytes() == before
    for foreign in (b"robot\n", b"[task]", b"{}\n", lines[0].replace(b"gpurt-profile", b"gpurt-trace")):
        path.write_bytes(foreign)
        with pytest.raises(FileError, match="is no checkpoint of gpurt measure times"), open_(path):
            pass
        assert path.read_bytes() == foreign
    path.write_bytes(whole.replace(b'"version":3', b'"version":4'))
    with pytest.raises(FileError, match="another version of gpurt"), open_(path):
        pass


def test_a_file_without_a_result_is_not_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with open_(path) as store:
        store.begin(1)
        store.fail(1, "why")
        assert path.exists()
    assert not path.exists()
    with open_(None) as store:  # without a file nothing is kept
        store.begin(1)
        store.add(result(1), [])
        assert store.results == [result(1)]


def test_two_measurements_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with open_(path) as store:
        store.add(result(1), [])
        with pytest.raises(FileError, match="another gpurt measure times writes it"), open_(path):
            pass
        with pytest.raises(FileError, match="another gpurt measure times writes it"), open_(path):
            pass
    with open_(path) as store:
        assert store.results == [result(1)]


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Files of this process may have no more than so many bytes."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with open_(path) as store:
        store.add(result(1), [])
        size = path.stat().st_size
        with full_disk(size + 5), pytest.raises(FileError, match="cannot be written"):
            store.add(result(2), [])
        assert path.stat().st_size == size
        store.fail(2, "full")
    with open_(path) as store:
        assert (store.results, store.failures) == ([result(1)], ["run 2: full"])


def test_changed_files_are_noticed_and_outputs_are_not_inputs(tmp_path: Path) -> None:
    program, data = tmp_path / "program", tmp_path / "data"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    data.write_text("1")
    options, here = ProfileOptions([str(program), str(data)]), Here([], None)
    contents = Contents(PLAN, options, here)
    data.write_text("1")  # rewritten, and the same
    contents.check()
    data.write_text("2")
    with pytest.raises(RuntimeFailure, match="data has changed since the measurement began"):
        contents.check()
    assert contents.after(PLAN[0]) == [str(data)]
    contents.check()  # it is the program's output
    program.write_text("#!/bin/bash\n")
    assert contents.after(PLAN[0]) == []
    with pytest.raises(RuntimeFailure, match="program has changed since"):
        contents.check()
    path = tmp_path / "c"
    subject = identity(PLAN, options, here)
    with Checkpoint(path, PLAN, subject, Contents(PLAN, options, here)) as store:
        store.add(result(1), [str(data)])
    data.unlink()
    with Checkpoint(path, PLAN, subject, Contents(PLAN, options, here)) as store:
        assert store.results == [result(1)]
    program.write_text("#!/bin/dash\n")
    with (
        pytest.raises(FileError, match=r"of another measurement, which was not finished: .*program has changed"),
        Checkpoint(path, PLAN, subject, Contents(PLAN, options, here)),
    ):
        pass


def test_files_that_runs_make_do_not_keep_a_measurement_from_going_on(tmp_path: Path) -> None:
    path, program = tmp_path / "c", tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    options, here = ProfileOptions([str(program), f"{tmp_path}/log.{{}}", f"{tmp_path}/out"]), Here([], None)
    subject = identity(PLAN, options, here)

    def contents() -> Contents:
        return Contents(PLAN, options, here)

    with Checkpoint(path, PLAN, subject, seen := contents()) as store:
        store.begin(1)
        for name in ("log.a", "log.b", "other"):
            (tmp_path / name).write_text("1")
        assert seen.after(PLAN[0]) == [f"{tmp_path}/log.a"]  # of another input's file nothing is known
        (tmp_path / "log.b").unlink()
        store.add(result(1), [f"{tmp_path}/log.a"])
        store.begin(2)
        (tmp_path / "out").write_text("1")
        store.fail(2, "why", seen.after(PLAN[1]))
        store.begin(2)
        (tmp_path / "log.b").write_text("1")  # and gpurt is killed
    for _ in range(2):
        with Checkpoint(path, PLAN, subject, seen := contents()) as store:
            assert (store.results, store.failures) == ([result(1)], ["run 2: why", f"run 2: {CUT_OFF_ATTEMPT}"])
            assert seen.outputs == {f"{tmp_path}/{name}" for name in ("log.a", "log.b", "out")}
    (tmp_path / "log.b").unlink()
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))  # the first run, which made log.a alone
    (tmp_path / "log.b").write_text("1")
    with pytest.raises(FileError, match="out has changed"), Checkpoint(path, PLAN, subject, contents()):
        pass
