"""The taskset file: loading reports all mistakes at once, each with its line, and never ends in a traceback."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest
import tomlkit
from attack_report import toml
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.answers import registry
from analysis.answers.choose import with_modes
from analysis.answers.sensitivity import slowed
from analysis.model import MS, US, GpuSegment, Partition, Span, Taskset, Waiting
from analysis.rta.regions import with_region
from analysis.taskset import Launch, json_schema, load
from analysis.taskset.lines import lines_of
from analysis.taskset.text import tomllib
from analysis.taskset.write import write_values
from gpurt.enums import Form
from gpurt.errors import FileError, TasksetError
from gpurt.units import LONGEST_TIME_NS, format_time, parse_time

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted([*(ROOT / "examples").glob("*.toml"), *(ROOT / "examples/boards").glob("*.toml")])
GOOD = (ROOT / "examples/minimal.toml").read_text()


def problems(tmp_path: Path, text: str | bytes) -> list[tuple[int, str]]:
    """Line and message of every mistake that loading reports."""
    path = tmp_path / "bad.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TasksetError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:")
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_minimal_example_is_read_exactly() -> None:
    file = load(ROOT / "examples/minimal.toml")
    camera, mapping = file.taskset.tasks
    assert (file.taskset.platform.alpha, file.taskset.platform.theta) == (800 * US, 200 * US)
    assert (camera.name, camera.cpu, camera.priority, camera.period, camera.deadline) == (
        "camera", 0, 20, 33 * MS, 30 * MS,
    )  # fmt: skip
    assert camera.segments[1] == GpuSegment(Span.exactly(500 * US), Span(8 * MS, 6 * MS))
    assert (mapping.deadline, mapping.waiting, mapping.gpu_priority) == (200 * MS, Waiting.SUSPEND, None)


def partitions(taskset: Taskset) -> list[Partition | None]:
    return [task.partition for task in taskset]


def test_a_task_carries_its_partition(tmp_path: Path) -> None:
    """Through every way in which a taskset is made from another one, and through files that are written."""
    path = tmp_path / "set.toml"
    task = '\n[[task]]\nname = "{}"\ncpu = 0\npriority = {}\nperiod = "1s"\n'
    task += 'segments = [{{ misc = "1ms", gpu = "2ms" }}]\n'
    text = '[platform]\ncpus = 1\n' + task.format("count", 3) + "[task.partition]\ncompute_units = 4\n"
    text += task.format("mask", 2) + 'partition = { cu_mask = "0xf0", compute_units = 2 }\n' + task.format("whole", 1)
    path.write_text(text)
    found = [Partition(4, None), Partition(2, 0xF0), None]
    file = load(path)
    assert partitions(file.taskset) == found
    assert file.launch["mask"] == Launch()
    assert partitions(file.taskset.with_gpu_priorities({"count": 7, "whole": 5})) == found
    assert partitions(slowed(file.taskset, Fraction(2))) == found
    assert partitions(with_modes(file.taskset, {"mask": Waiting.BUSY})) == found
    assert partitions(with_region(file.taskset, MS)) == found
    write_values(path, {"gpu_priority": {"count": 7, "mask": 6}, "waiting": {"whole": "busy"}})
    assert partitions(load(path).taskset) == found
    path.write_text(toml(file.taskset))
    assert load(path).taskset == file.taskset


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        ('{ cu_mask = "0x0" }', "cu_mask: names no CU"),
        ('{ cu_mask = "0x100" }', "cu_mask: the platform has CUs 0 to 7"),
        ("{ compute_units = 9 }", "compute_units: the platform has 8, got 9"),
        ('{ compute_units = 3, cu_mask = "0x81" }', "cu_mask: has 2 CUs, compute_units says 3"),
    ],
)
def test_a_partition_that_contradicts_itself_or_the_platform(tmp_path: Path, partition: str, words: str) -> None:
    text = GOOD.replace("cpus = 2", "cpus = 2\ncompute_units = 8")
    (problem,) = problems(tmp_path, text.replace("cpu = 0\n", f"cpu = 0\npartition = {partition}\n"))
    assert problem == (12, words)


def test_no_bound_depends_on_a_partition() -> None:
    taskset = load(ROOT / "examples/case-study.toml").taskset
    parted = replace(taskset, tasks=tuple(replace(t, partition=Partition(1, 1)) for t in taskset))
    for test in registry.TESTS.values():
        assert test.run(parted).verdicts == test.run(taskset).verdicts


def test_case_study_is_the_paper_s_table() -> None:
    """ECRTS'24, table 4: C, G, T in ms, CPU, priority."""
    table = {
        "histogram": (1, 10, 100, 1, 70),
        "mmul_gpu_1": (2, 12, 150, 2, 69),
        "mmul_cpu": (67, 0, 200, 2, 68),
        "projection": (12, 15, 300, 1, 67),
        "dxtc": (2, 16, 400, 1, 66),
        "mmul_gpu_2": (4, 44, 200, 4, 0),
        "simpleTexture3D": (4, 27, 67, 5, 0),
    }
    tasks = load(ROOT / "examples/case-study.toml").taskset.tasks
    read = {t.name: (t.cpu_time / MS, t.gpu_time / MS, t.period / MS, t.cpu, t.priority) for t in tasks}
    assert read == table


def test_every_mistake_is_reported_at_its_line(tmp_path: Path) -> None:
    text = """[platform]
cpus = "two"
epsilon = 5
[[task]]
name = "a b"
cpu = true
priority = 100
period = "0ms"
segments = [
  { cpu = "5" },
  { misk = "1ms" },   # ] } " a trap
  { cpu = { worst = "1ms", best = "2ms" } },
]
pririty = 1
[[tusk]]
"""
    found = problems(tmp_path, text)
    assert [line for line, _ in found] == [2, 3, 5, 6, 7, 8, 10, 11, 12, 14, 15]
    messages = dict(found)
    assert "a string" in messages[2]
    assert '"5ms"' in messages[3]
    assert "longer than 0" in messages[8]
    assert 'did you mean "misc"' in messages[11]
    assert 'did you mean "priority"' in messages[14]


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (('cpus = 2 ', 'cpus = 0 '), 4, "1 to 1024"),
        (('theta = "200us"', 'theta = "2ms"'), 5, "alpha + theta"),
        (('deadline = "30ms"', 'jitter = "-1ms"'), 13, "jitter"),
        (('deadline = "30ms"', 'jitter = 6'), 13, 'a time needs a unit; write "6ms"'),
        (('cpu = 1\n', 'cpu = 2\n'), 23, "CPUs 0 to 1"),
        (('name = "mapping"', 'name = "camera"'), 22, "taken by task 1"),
        (('period = "33ms"', 'period = "9999999999999999999s"'), 12, "2^62"),
        (('period = "33ms"', 'period = inf'), 12, "unit"),
        (('period = "33ms"', 'period = "0.3ns"'), 12, "whole number"),
        (('period = "33ms"', 'period = "33 parsecs"'), 12, "not a unit"),
        (('priority = 20', 'priority = 99999999999999999999999999'), 11, "huge"),
        (('period = "33ms"', ''), 8, '"period" is missing'),
        (('segments = [{', 'segments = [7, {'), 28, "expected a table"),
        (('{ cpu = "1ms" }', '{ cpu = "1ms", gpu = "1ms" }'), 18, "is a segment of its own"),
        (('waiting = "suspend"', 'waiting = "sleep"'), 14, '"busy" or "suspend"'),
        (('cpu = 0', 'cpu = 0\ngpu_priority = 200'), 11, "1 to 99"),
        (('{ misc = "0.5ms", gpu', '{ gpu'), 17, 'misc = "0ms" if there is none'),
        (('period = "33ms"', 'period = "33ms"\nrate = "30Hz"'), 13, 'period = "33.333ms"'),
        (('period = "33ms"', 'period = "33ms"\nfps = 60'), 13, 'period = "16.666ms"'),
        (('cpu = 0\n', 'cpu = 0\ncore = 1\n'), 11, 'did you mean "cpu"?'),
        (('period = "33ms"', 'rate = 30'), 12, 'period = "33.333ms"'),
        (('period = "33ms"', 'period = "30 Hz"'), 12, '"33.333ms"'),
        (('period = "33ms"', 'period = "33ms"\nwcet = "5ms"'), 13, 'belong into segments: segments = [{ cpu ='),
        (('cpu = 0\n', 'cpu = 0\ngpu = "200ms"\n'), 11, 'belong into segments: segments = [{ cpu ='),
        (('cpu = 0\n', 'cpu = "2ms"\n'), 10, 'belong into segments: segments = [{ cpu ='),
        (('cpu = 0\n', 'cpu = 0\nprio = 1\n'), 11, 'did you mean "priority"?'),
        (('[platform]', '[[node]]\nname = "x"\n[platform]'), 3, "an executor is a [[thread]]"),
        (('waiting = "suspend"', 'waiting = "spin"'), 14, 'what others call spin is "busy" here'),
        (('cpus = 2 ', 'policy = "gcaps"\ncpus = 2 '), 4, 'what others call gcaps is "segment" here'),
    ],
)  # fmt: skip
def test_one_mistake_in_a_good_file(tmp_path: Path, change: tuple[str, str], line: int, words: str) -> None:
    assert GOOD.count(change[0]) >= 1
    found = problems(tmp_path, GOOD.replace(change[0], change[1], 1))
    assert len(found) == 1
    assert found[0][0] == line
    assert words in found[0][1]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (b"", 1, "empty"),
        (b"  \n\n", 1, "empty"),
        (b"[platform]\ncpus = 2\n# \xff\n", 3, "byte 22 is not UTF-8"),
        (b"[platform]\ncpus = = 2\n", 2, "not TOML"),
        (b"[platform]\ncpus = 2\ncpus = 3\n", 3, "not TOML"),
        (b"[platform\n", 1, "not TOML"),
        (b'x = [\n  { cpu = "1ms", },\n]\n', 2, "does not end with a comma"),
        (b'x = { a = 1,\n      b = 2 }\n', 1, "stands on one line"),
        (b'x = { a = 1 b = 2 }\n', 1, "a comma is missing in the table"),
        (b'x = [1\ny = 2\n', 2, "a comma is missing in the array"),
        (b"\r\nx = 5ms\r\n", 2, 'times are texts in quotes, as "5ms"'),
        (b"x = 5 ms\n", 1, 'times are texts in quotes, as "5ms"'),
        (b"x = 1,\n", 1, "no comma at its end"),
        (b"x = True\n", 1, "small letters"),
        (b"x =\n", 1, "a value is missing"),
        (b"x = [\n", 1, "a value is missing"),
        (b"x = camera\n", 1, "needs quotes"),
        ("x = \u201ccamera\u201d\n".encode(), 1, "typographic"),
        (b'x = "camera\n', 1, "a quote is missing"),
        (b"x = 'camera\n", 1, "a quote is missing"),
        (b"x: 1\n", 1, "not a colon"),
        (b"[task]\n[task]\n", 2, "a [[task]] of its own"),
        (b"// x\n", 1, "begins with #"),
        (b'{"traceEvents": []}', 1, "this is JSON"),
        (b"task = 3\n[platform]\ncpus = 1\n", 1, "[[task]]"),
        (b"x = " + b"[" * 5000 + b"]" * 5000, 1, "nested"),
        (b"x = " + b"1" * 5000, 1, "too large"),
    ],
)
def test_broken_files(tmp_path: Path, text: bytes, line: int, words: str) -> None:
    assert any(at == line and words in message for at, message in problems(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "directory"), (tmp_path / "none.toml", "No such file"), (Path("a\0b"), "file name")):
        with pytest.raises(FileError, match=words):
            load(path)


def test_devices_and_what_is_too_large_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="/dev/zero: is a device"):
        load("/dev/zero")
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(64 * 2**20 + 1)
    with pytest.raises(FileError, match="larger than 64 MiB"):
        load(large)


def test_a_wrong_field_does_not_hide_what_else_is_wrong_with_its_task(tmp_path: Path) -> None:
    text = GOOD.replace("priority = 20", "priority = 200").replace('deadline = "30ms"', 'deadline = "0ms"')
    text = text.replace("cpu = 0\n", "cpu = 9\n").replace('{ cpu = "1ms" }', '{ misc = "1ms" }')
    assert [line for line, _ in problems(tmp_path, text)] == [10, 11, 13, 18]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('name = "camera"', 'name = "camera\\n"'), "name"),
        (("cpu = 0\n", 'cpu = 0\ncgroup = "/../x"\n'), "cgroup"),
        (("cpu = 0\n", 'cpu = 0\npartition = { cu_mask = "0x1\\n" }\n'), "cu_mask"),
        (("cpu = 0\n", 'cpu = 0\n"\\u001b[31m" = 1\n'), "unknown key"),
        (('period = "33ms"', 'period = "\\n\\u001b33"'), "period"),
    ],
)
def test_strings_are_matched_whole_and_shown_on_one_line(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    for _, message in problems(tmp_path, GOOD.replace(*change, 1)):
        assert words in message
        assert message.isprintable()


@pytest.mark.parametrize(
    ("costs", "alpha", "theta"),
    [
        ('epsilon = "3us"', 3000, 0),
        ('epsilon = "3us"\nalpha = "1us"', 1000, 2000),
        ('alpha = "1us"\ntheta = "2us"', 1000, 2000),
        ('epsilon = "3us"\nalpha = "1us"\ntheta = "2us"', 1000, 2000),
        ('epsilon = "4us"\nalpha = "1us"\ntheta = "2us"', None, None),
        ('epsilon = "1us"\nalpha = "2us"', None, None),
    ],
)
def test_epsilon_is_alpha_plus_theta(tmp_path: Path, costs: str, alpha: int | None, theta: int | None) -> None:
    text = f'[platform]\ncpus = 1\ntime_slice = "2ms"\ncopy_engine = false\n{costs}\n'
    if alpha is None:
        assert "alpha + theta" in problems(tmp_path, text)[0][1]
        return
    path = tmp_path / "platform.toml"
    path.write_text(text)
    platform = load(path).taskset.platform
    assert (platform.alpha, platform.theta, platform.time_slice, platform.copy_engine) == (alpha, theta, 2 * MS, False)


@pytest.mark.parametrize("change", [("priority = 20", "priority = 0"), ('{ misc = "0.5ms", gpu', '{ cpu')])
def test_only_a_real_time_task_with_a_gpu_segment_has_a_gpu_priority(tmp_path: Path, change: tuple[str, str]) -> None:
    text = GOOD.replace("cpu = 0\n", "cpu = 0\ngpu_priority = 5\n")
    (tmp_path / "good.toml").write_text(text)
    assert load(tmp_path / "good.toml").taskset.tasks[0].gpu_priority == 5
    assert any("only a real-time task" in message for _, message in problems(tmp_path, text.replace(*change)))


def test_overload_is_a_result_not_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "over.toml"
    path.write_text(GOOD.replace('{ cpu = "20ms" }', '{ cpu = "300ms" }'))
    file = load(path)
    assert file.notes == ("CPU 1 is loaded to 151% by CPU execution alone",)


@pytest.mark.slow(0.2)
def test_as_many_tasks_as_a_file_may_have_load(tmp_path: Path) -> None:
    path = tmp_path / "many.toml"
    task = '[[task]]\nname = "t{0}"\ncpu = {1}\npriority = 1\nperiod = "1s"\nsegments = [{{ cpu = "1us" }}]\n'
    path.write_text("[platform]\ncpus = 64\n" + "".join(task.format(i, i % 64) for i in range(5_000)))
    assert len(load(path).taskset) == 5_000


def test_schema_in_docs_is_the_one_that_validates() -> None:
    assert json.loads((ROOT / "docs/taskset.schema.json").read_text()) == json_schema(), (
        "gpurt help schema > docs/taskset.schema.json")  # fmt: skip
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_valid_for_the_schema_too(path: Path) -> None:
    jsonschema.validate(tomllib.loads(path.read_text()), json_schema())
    assert load(path).taskset.tasks


@pytest.mark.parametrize(
    "change", [("cpus = 2 ", "cpus = 0 "), ('"33ms"', '"33"'), ("priority = 20", "prio = 20"), ('"suspend"', '"x"')]
)
def test_schema_refuses_what_loading_refuses(tmp_path: Path, change: tuple[str, str]) -> None:
    bad = GOOD.replace(*change)
    assert problems(tmp_path, bad)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(bad), json_schema())


def test_writing_priorities_keeps_everything_else(tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text(GOOD)
    path.chmod(0o640)
    write_values(path, {"gpu_priority": {"mapping": 61}})
    assert [t.gpu_priority for t in load(path).taskset] == [None, 61]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    old, new = GOOD.splitlines(), path.read_text().splitlines()
    assert [line for line in new if line not in old] == ["gpu_priority = 61"]
    assert [line for line in old if line not in new] == []
    assert new.index("gpu_priority = 61") == new.index("priority = 10") + 1
    write_values(path, {"gpu_priority": {"mapping": 7}})
    assert [t.gpu_priority for t in load(path).taskset] == [None, 7]
    assert len(path.read_text().splitlines()) == len(new)
    for bad in ({"nobody": 5}, {"mapping": 700}):
        with pytest.raises(FileError):
            write_values(path, {"gpu_priority": bad})
    assert [t.gpu_priority for t in load(path).taskset] == [None, 7]
    assert [entry.name for entry in tmp_path.iterdir()] == ["set.toml"]


@given(st.integers(0, LONGEST_TIME_NS))
def test_times_round_trip(ns: int) -> None:
    assert parse_time(format_time(ns)) == ns


@given(st.decimals(0, 10**6, places=3), st.sampled_from(["us", "ms", "s"]))
def test_times_are_exact(number: Decimal, unit: str) -> None:
    assert parse_time(f"{number:f}{unit}") == number * {"us": 10**3, "ms": 10**6, "s": 10**9}[unit]


def never_a_traceback(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "fuzz.toml"
    path.write_bytes(raw)
    error = None
    try:
        load(path)
    except FileError as caught:
        error = str(caught)
    assert error != ""


@settings(max_examples=tries(150))
@given(raw=st.binary(max_size=300))
def test_random_bytes_never_give_a_traceback(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    never_a_traceback(tmp_path_factory.getbasetemp(), raw)


@settings(max_examples=tries(300))
@given(data=st.data())
def test_mutated_files_never_give_a_traceback(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    lines = GOOD.splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        piece = data.draw(st.sampled_from(["", "x", "[", "]", "{", "=", '"', "'", "\n", "-1", "1e999", "[[task]]\n"]))
        cut = data.draw(st.integers(0, len(lines[at])))
        lines[at] = lines[at][:cut] + piece + lines[at][cut + data.draw(st.integers(0, 3)) :]
    never_a_traceback(tmp_path_factory.getbasetemp(), "".join(lines).encode())


VALUES = st.recursive(
    st.one_of(st.integers(-5, 5), st.booleans(), st.text("ab]}#,\"'\n", max_size=6)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", min_size=1), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=tries(200))
@given(st.dictionaries(st.text("abc.# ", min_size=1, max_size=4), VALUES, max_size=4), st.integers(0, 3))
def test_lines_are_found_in_any_document(document: dict[str, object], blank: int) -> None:
    """Every top-level key is on the line where its text begins."""
    text = "\n" * blank + tomlkit.dumps(document)
    lines = lines_of(text)
    parsed = tomllib.loads(text)
    rows = text.split("\n")
    for key in parsed:
        assert (key,) in lines
        row = rows[lines[(key,)] - 1].lstrip("[ ")
        assert row.startswith((key, f'"{key}"', f"'{key}'"))


def test_lines_in_nested_values_and_crlf() -> None:
    text = 'a = [\r\n  1, # ]\r\n  { b = """x\r\n]""", c = 2 },\r\n]\r\n[t.u]\r\nk = 1\r\n[[v]]\r\n[[v]]\r\nk = 2\r\n'
    lines = lines_of(text)
    assert [lines[path] for path in (("a", 0), ("a", 1), ("a", 1, "b"), ("a", 1, "c"))] == [2, 3, 3, 4]
    assert lines["t", "u", "k"] == 7
    assert (lines["v", 0], lines["v", 1], lines["v", 1, "k"]) == (8, 9, 10)


FORM = """[platform]
cpus = 1
[[task]]
name = "t"
cpu = 0
priority = {priority}
period = "10ms"
waiting = "{waiting}"
form = "{form}"
segments = [{segment}]
"""


@pytest.mark.parametrize(
    ("form", "waiting", "right"),
    [
        ("self", "suspend", True), ("owner", "suspend", True), ("fence", "suspend", False),
        ("self", "busy", False), ("owner", "busy", True), ("fence", "busy", True),
    ],
)  # fmt: skip
def test_a_form_fits_the_waiting_mode(tmp_path: Path, form: str, waiting: str, right: bool) -> None:
    text = FORM.format(priority=3, waiting=waiting, form=form, segment='{ misc = "1ms", gpu = "2ms" }')
    jsonschema.validate(tomllib.loads(text), json_schema())
    if not right:
        ((line, message),) = problems(tmp_path, text)
        assert (line, message.startswith("form: ")) == (9, True)
        return
    path = tmp_path / "set.toml"
    path.write_text(text)
    loaded = load(path).taskset
    assert loaded.tasks[0].form is Form(Form.parse(form))
    path.write_text(toml(loaded))
    assert load(path).taskset == loaded
    other = Waiting.BUSY if waiting == "suspend" else Waiting.SUSPEND
    assert with_modes(loaded, {"t": other}).tasks[0].form is None


def test_a_form_without_a_real_time_segment_is_a_mistake(tmp_path: Path) -> None:
    for priority, segment in ((0, '{ misc = "1ms", gpu = "2ms" }'), (3, '{ cpu = "1ms" }')):
        text = FORM.format(priority=priority, waiting="suspend", form="owner", segment=segment)
        assert [line for line, _ in problems(tmp_path, text)] == [9]


@pytest.mark.parametrize("policy", [None, "segment"])
def test_inline_tables_are_left_as_they_are(tmp_path: Path, policy: str | None) -> None:
    path = tmp_path / "inline.toml"
    text = (
        'platform = { cpus = 1, epsilon = "1ms" }\n'
        'task = [{ name = "a", cpu = 0, priority = 4, period = "20ms", segments = [{ misc = "1ms", gpu = "2ms" }] }]\n'
    )
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=r"inline\.toml: its form .* set (gpu_priority|policy) by hand"):
        write_values(path, {"gpu_priority": {"a": 7}, "form": {}}, policy)
    assert path.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [path]
