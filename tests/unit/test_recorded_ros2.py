# SPDX-License-Identifier: GPL-2.0
"""`gpurt init --from FOLDER`: threads and callbacks of ROS 2, from the events of ros2_tracing."""

from __future__ import annotations

import importlib.util
import re
import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from calls import Gpurt, caller

from analysis import taskset
from gpurt.errors import FileError
from pycontrol.measure.recorded.ros2 import Executors, RosEvent, report

MS = 1_000_000
CAMERA, DETECT, OTHER = 0xC1, 0xD1, 0xE1
PROCESS, EXECUTOR = 500, 501
#: Fields of the events as ros2_tracing publishes them: p: a pointer; i: a number; s: text.
FIELDS = {
    "ros2:rcl_timer_init": "p:timer_handle i:period",
    "ros2:rclcpp_timer_callback_added": "p:timer_handle p:callback",
    "ros2:rclcpp_callback_register": "p:callback s:symbol",
    "ros2:rcl_subscription_init": "p:subscription_handle p:node_handle p:rmw_subscription_handle s:topic_name "
    "i:queue_depth",
    "ros2:rclcpp_subscription_init": "p:subscription_handle p:subscription",
    "ros2:rclcpp_subscription_callback_added": "p:subscription p:callback",
    "ros2:rclcpp_executor_wait_for_work": "i:timeout",
    "ros2:callback_start": "p:callback i:is_intra_process",
    "ros2:callback_end": "p:callback",
    "ros2:rmw_publish": "p:rmw_publisher_handle p:message i:timestamp",
    "ros2:rmw_take": "p:rmw_subscription_handle p:message i:source_timestamp i:taken",
    "sched_switch": "i:prev_tid i:next_tid",
}


def event(name: str, time: int, *values: int | str, thread: int = EXECUTOR) -> RosEvent:
    """An event with the values of its fields, in order."""
    names = [word.partition(":")[2] for word in FIELDS[name].split()]
    own = dict(zip(names, values, strict=True))
    context = {"vpid": PROCESS, "vtid": thread, "procname": "robot"}
    return RosEvent(name, time, own if name == "sched_switch" else own | context)


def program(stamps: bool = True, kernel: bool = False, thread: int = EXECUTOR) -> Iterator[RosEvent]:
    """A timer of 50 ms, whose callback publishes; a subscription takes each message, and once there is none."""
    yield event("ros2:rcl_timer_init", 1, 0x10, 50 * MS)
    yield event("ros2:rclcpp_timer_callback_added", 2, 0x10, CAMERA)
    yield event("ros2:rclcpp_callback_register", 3, CAMERA, "robot::Camera::grab()")
    yield event("ros2:rcl_subscription_init", 4, 0x20, 0x1, 0x21, "/image", 1)
    yield event("ros2:rclcpp_subscription_init", 5, 0x20, 0x22)
    yield event("ros2:rclcpp_subscription_callback_added", 6, 0x22, DETECT)
    yield event("ros2:rclcpp_callback_register", 7, DETECT, "Detect::image(std::shared_ptr<Image>)")
    for at in range(100 * MS, 300 * MS, 50 * MS):
        yield event("ros2:rclcpp_executor_wait_for_work", at - MS, -1)
        yield event("ros2:callback_start", at, CAMERA, 0)
        yield event("ros2:rmw_publish", at + MS, 0x30, 0x31, at + 7 if stamps else 0)
        yield event("ros2:callback_end", at + 2 * MS, CAMERA)
        yield event("ros2:rmw_take", at + 3 * MS, 0x21, 0x31, at + 7, 1, thread=thread)
        yield event("ros2:rmw_take", at + 3 * MS + 1, 0x21, 0x31, 0, 0, thread=thread)
        yield event("ros2:callback_start", at + 4 * MS, DETECT, 0, thread=thread)
        if kernel:
            yield event("sched_switch", at + 5 * MS, thread, 0)
            yield event("sched_switch", at + 8 * MS, 0, thread)
        yield event("ros2:callback_end", at + 10 * MS, DETECT, thread=thread)


def made(events: Iterator[RosEvent]) -> tuple[str, str]:
    said, tasks = report(Path("trace"), Fraction(0), Executors(events))
    return said, "\n\n".join(tasks)


def test_a_thread_serves_callbacks_of_timers_and_subscriptions(tmp_path: Path) -> None:
    said, text = made(program())
    assert "wall time, for the scheduler was not recorded" in said
    assert re.search(r"grab +timer +4 +2\.000 +2\.000 +50\.000 +-\n", said)
    assert re.search(r"image +subscription +/image +4 +6\.000 +6\.000 +- +grab \(4 of 4\)", said)
    assert 'order = "ros2"' in text
    assert 'period = "50ms"  # of its timer' in text
    filled = {"cpu": "0", "priority": "9", "deadline": '"50ms"', "period": '"50ms"'}
    text = re.sub(r'^(\w+) = "\?"', lambda one: f"{one[1]} = {filled.get(one[1], 'RANK')}", text, flags=re.MULTILINE)
    for rank in range(2):
        text = text.replace("RANK", str(rank), 1)
    (tmp_path / "a.toml").write_text(f'[platform]\ncpus = 1\nalpha = "1ms"\ntheta = "0ns"\n{text}\n')
    assert [one.name for one in taskset.load(tmp_path / "a.toml").taskset.tasks] == ["grab", "image"]


def test_a_message_links_callbacks_only_where_its_stamp_proves_it() -> None:
    said, text = made(program(stamps=False))
    assert re.search(r"subscription.* - +\?\n", said + "\n")
    assert 'period = "?"  # released by ?; /image' in text
    assert "grab" in made(program())[1].split('name = "image"')[1]
    twice = [*program(), event("ros2:rmw_publish", 400 * MS, 0x30, 0x31, 100 * MS + 7)]
    assert "grab (3 of 4)" in made(iter(twice))[0]


def test_with_the_kernels_scheduler_times_are_cpu_time() -> None:
    said, text = made(program(kernel=True))
    assert "times are CPU time" in said
    assert re.search(r"image +subscription +/image +4 +3\.000 +3\.000", said)
    assert "# CPU time, GPU work included; 4 jobs" in text


def test_a_callback_that_several_threads_serve_is_no_task() -> None:
    events = [*program(), *(one for one in program(thread=502) if one.values["vtid"] == 502)]
    said, text = made(iter(sorted(events, key=lambda one: one.time)))
    assert "NO TASKS: several threads serve image" in said
    assert text == ""


def test_threads_of_one_process_say_so() -> None:
    _, text = made(program(thread=502))
    assert text.count(f'process = "robot-{PROCESS}"  # several') == text.count("[[thread]]") == 2
    assert "process =" not in made(program())[1]


def test_what_began_before_the_recording_is_no_job_and_a_missing_end_no_task() -> None:
    said, _ = made(iter([event("ros2:callback_end", 1, CAMERA), *program()]))
    assert re.search(r"grab +timer +4 ", said)
    said, text = made(one for one in program() if one.name != "ros2:callback_end" or one.time > 110 * MS)
    assert "NO TASKS: callbacks begin inside others, or events of their ends are missing" in said
    assert text == ""


def test_a_callback_that_never_ends_may_be_the_source_of_messages() -> None:
    first = [event("ros2:callback_start", 1, 0xF1, 0), event("ros2:rmw_publish", 2, 0x30, 0x31, 100 * MS + 7)]
    rest = [one for one in program() if one.name != "ros2:rmw_publish" and one.values.get("callback") != CAMERA]
    said, _ = made(iter([*first, *rest]))
    assert "unknown (1 of 4)" in said


def test_an_event_without_its_context_is_refused() -> None:
    with pytest.raises(FileError, match="lacks vpid, a number; record with the context"):
        Executors([RosEvent("ros2:callback_end", 1, {"callback": 1})])


METADATA = """/* CTF 1.8 */
typealias integer { size = 64; align = 8; signed = true; } := number;
typealias integer { size = 64; align = 8; signed = false; } := word;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { word stream_id; }; };
clock { name = "monotonic"; freq = 1000000000; };
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := stamp;
stream { id = 0; event.header := struct { word id; stamp timestamp; };
  event.context := struct { number vpid; number vtid; string procname; }; };
"""


def ctf(folder: Path, events: Iterator[RosEvent]) -> Path:
    """A trace in the Common Trace Format, in one packet."""
    folder.mkdir()
    text, data = METADATA, struct.pack("<q", 0)
    for number, (name, fields) in enumerate(FIELDS.items()):
        those = [word.partition(":") for word in fields.split()]
        kinds = " ".join(f"{'string' if kind == 's' else 'number'} {field};" for kind, _, field in those)
        text += f'event {{ name = "{name}"; id = {number}; stream_id = 0; fields := struct {{ {kinds} }}; }};\n'
    for one in events:
        data += struct.pack("<qq", list(FIELDS).index(one.name), one.time)
        data += struct.pack("<qq", one.values.get("vpid", 0), one.values.get("vtid", 0)) + b"robot\0"
        for word in FIELDS[one.name].split():
            value = one.values[word.partition(":")[2]]
            data += value.encode() + b"\0" if isinstance(value, str) else struct.pack("<q", value)
    (folder / "metadata").write_text(text)
    (folder / "stream").write_bytes(data)
    return folder


def test_a_folder_is_read_with_bt2(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gpurt: Gpurt = caller(capfd, "init", "--from")
    folder = ctf(tmp_path / "trace", program(kernel=True))
    if importlib.util.find_spec("bt2") is None:
        code, out, err = gpurt(folder)
        assert (code, out) == (3, "")
        assert "python3-bt2" in err
        return
    code, out, _ = gpurt(folder, "-o", tmp_path / "found.toml")
    assert code == 0
    assert "grab (4 of 4)" in out
    (folder / "stream").write_bytes((folder / "stream").read_bytes()[:-3])
    code, out, err = gpurt(folder)
    assert (code, out) == (3, "")
    assert "cannot be read as a CTF trace" in err
