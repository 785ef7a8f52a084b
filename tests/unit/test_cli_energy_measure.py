# SPDX-License-Identifier: GPL-2.0
"""`gpurt measure energy`: programs are measured on fake sensors that live, vanish, stall and wrap."""

from __future__ import annotations

import csv
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import power_trees as trees
import pytest
from calls import Gpurt, caller
from energy_calls import document

from analysis.energy import measured
from pycontrol.machine.power import find, sysfs
from pycontrol.machine.power.sensor import Scope, SensorError, SensorFacts, SensorKind

#: A program that writes a counter or a power, as the kernel would change it: file, values, pause in s.
WRITER = """
import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY)
for value in range(*map(int, sys.argv[2].split(","))):
    os.pwrite(file, b"%012d" % value, 0)
    time.sleep(float(sys.argv[3]))
if sys.argv[4:]:
    os.unlink(sys.argv[1])
    time.sleep(0.1)
"""
PYTHON = (sys.executable, "-I", "-S", "-c")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd, "measure")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sysfs, "ROOT", tmp_path / "sys")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    return tmp_path / "sys"


@pytest.fixture
def fake(fake_nvml: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The only sensors."""
    monkeypatch.setattr(sysfs, "ROOT", tmp_path / "sys")
    return fake_nvml


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_counter_measures_and_a_short_program_is_repeated(run: Gpurt, fake: Any, tmp_path: Path) -> None:
    """The fake draws 100 W: the true mean is inside the error.  The counter steps each 2 ms."""
    out = tmp_path / "powers.csv"
    words = ["energy", "--kernel", "spin", "--units", "4", "--gpu-name", "fake", "--gpu-clock", "1725MHz", "--rounds",
             "2"]  # fmt: skip
    code, text, err = run(*words, "-o", out, "--interval", "1ms", "--json", "--", "true")
    found = document(text, "energy")
    assert (code, err, found["complete"], found["why"], found["files"]) == (0, "", True, None, [str(out)])
    assert len(found["rounds"]) == 2
    for one in found["rounds"]:
        (energy,) = one["sensors"]
        assert one["runs"] > 1 or one["program_ns"] >= 19 * 2_000_000  # or a run that the machine kept waiting
        assert energy["changes"] >= 20
        assert energy["error_bounded"]
        assert abs(energy["power_uw"] - 100_000_000) <= energy["error_uw"]
        assert energy["step_uw"] is None
        assert energy["step_uj"] >= 200_000
        assert one["program_ns"] <= energy["time_ns"]
    written = measured.load_measured(out, 46)
    assert [(one.kernels, one.gpu, one.clock, one.sensor) for one in written] == [
        ((("spin", 4),), "fake", "1725MHz", "nvml:0:energy")] * 2  # fmt: skip
    energies = [one["sensors"][0] for one in found["rounds"]]
    assert [(one.power, one.error) for one in written] == [(one["power_uw"], one["error_uw"]) for one in energies]
    code, text, _ = run("energy", "-o", out, "--interval", "1ms", "--", "sh", "-c", "echo loud; sleep 0.1")
    assert code == 0
    assert "loud" not in text
    assert [one.kernels for one in measured.load_measured(out, 46)] == [(("spin", 4),)] * 2 + [()]


def test_kernels_and_units_are_measured_in_an_order_by_chance(run: Gpurt, fake: Any, tmp_path: Path) -> None:
    """Each round's program is told what to do, and what it did stands in its line."""
    out, said = tmp_path / "powers.csv", tmp_path / "said"
    program = ["--", "sh", "-c", f"echo $0 $1 >>{said}; sleep 0.03", "{kernel}", "--sms={units}"]
    words = ["energy", "--kernel", "a", "--kernel", "b", "--units", "1,2,4", "--rounds", "2", "--interval", "1ms",
             "--discard", "0ms", "-o", out]  # fmt: skip
    code, text, _ = run(*words, "--json", *program)
    assert code == 0
    found = document(text, "energy")
    order = [(row["kernel"], row["units"]) for row in rows(out)]
    assert [one["about"] for one in found["rounds"]] == [f"{kernel} on {units} units" for kernel, units in order]
    each = [(kernel, units) for kernel in "ab" for units in "124"]
    assert sorted(order) == sorted(2 * each)
    assert order != sorted(order)
    told = [tuple(line.split(" --sms=")) for line in said.read_text().splitlines()]
    assert list(dict.fromkeys(told)) == list(dict.fromkeys(order))


def test_what_is_discarded_does_not_count(run: Gpurt, fake: Any, tmp_path: Path) -> None:
    """The program is started again until the window has begun, also if it is short."""
    samples = tmp_path / "samples.csv"
    words = ["energy", "--interval", "1ms", "--discard", "150ms", "--samples", samples, "--json"]
    code, text, _ = run(*words, "--", "sleep", "0.3")
    assert code == 0
    (one,) = document(text, "energy")["rounds"]
    energy = one["sensors"][0]
    assert one["program_ns"] <= energy["time_ns"] + 10**6
    times = [int(row["time_ns"]) for row in rows(samples)]
    assert energy["time_ns"] + 150_000_000 <= times[-1] - times[0]
    assert abs(energy["power_uw"] - 100_000_000) <= energy["error_uw"]
    code, text, _ = run("energy", "--interval", "1ms", "--discard", "100ms", "--json", "--", "true")
    assert (code, document(text, "energy")["complete"]) == (0, True)


class Stalling:
    """A counter of 100 W whose first reading after a tenth of a second takes three more."""

    about = SensorFacts("stalling", "a counter", SensorKind.COUNTER, Scope.GPU)

    def __init__(self) -> None:
        self.begin, self.stalled = time.monotonic_ns(), False

    def value(self) -> int:
        if not self.stalled and time.monotonic_ns() - self.begin > 100_000_000:
            self.stalled = True
            time.sleep(0.3)
        return (time.monotonic_ns() - self.begin) // 10


def test_the_programs_time_begins_with_the_window(run: Gpurt, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window is late if the sensor is."""
    monkeypatch.setattr(find, "chosen_sensors", lambda names: [Stalling()])
    words = ["energy", "--interval", "1ms", "--discard", "100ms", "--json"]
    (one,) = document(run(*words, "--", "sleep", "0.6")[1], "energy")["rounds"]
    assert one["program_ns"] <= one["sensors"][0]["time_ns"] + 10**6


def test_a_longer_measurement_is_asked_for(run: Gpurt, fake: Any) -> None:
    fake.fake_counter(0, 1_000_000, 0)
    words = ["--interval", "1ms", "--at-least", "150ms", "--json", "--", "true"]
    (one,) = document(run("energy", *words)[1], "energy")["rounds"]
    assert one["sensors"][0]["time_ns"] >= 150_000_000


def test_several_sensors_are_read_beside_each_other(run: Gpurt, fake: Any, tmp_path: Path) -> None:
    out, samples = tmp_path / "powers.csv", tmp_path / "samples.csv"
    words = ["--sensor", "nvml:0:energy", "--sensor", "nvml:0:instant", "--interval", "1ms", "--at-least", "0ms"]
    code, text, err = run("energy", *words, "-o", out, "--samples", samples, "--", "sleep", "0.1")
    assert code == 0
    assert "nvml:0:instant: samples of power have no error bound" in err
    assert [row["sensor"] for row in rows(out)] == ["nvml:0:energy", "nvml:0:instant"]
    kept = rows(samples)
    assert {row["sensor"] for row in kept} == {"nvml:0:energy", "nvml:0:instant"}
    assert all(bool(row["energy_uj"]) != bool(row["power_uw"]) for row in kept)
    assert len(kept) >= 4  # both at both ends; a busy machine reads as seldom as that
    assert "nvml:0:instant" in text


def test_a_counter_that_stands_still_is_refused(run: Gpurt, fake: Any, tmp_path: Path) -> None:
    fake.fake_counter(0, 2_000_000, 1)
    out = tmp_path / "powers.csv"
    code, text, _ = run("energy", "-o", out, "--at-most", "20ms", "--", "true")
    assert code == 1
    assert "NOT MEASURED: the counter stood still for all of" in text
    assert rows(out) == []


def test_a_constant_is_refused(run: Gpurt, fake: Any) -> None:
    words = ["--sensor", "nvml:0:power", "--at-least", "0ms", "--at-most", "30ms", "--interval", "1ms"]
    code, text, _ = run("energy", *words, "--json", "--", "true")
    found = document(text, "energy")
    assert code == 1
    assert "said 100.000000 W all of" in found["why"]
    assert found["complete"]


def test_a_gpu_that_is_lost_costs_nothing_that_was_measured(run: Gpurt, fake: Any, tmp_path: Path) -> None:
    asked = 4  # by looking for sensors
    for reads in (1, 50, 70):
        out, samples = tmp_path / f"{reads}.csv", tmp_path / f"samples{reads}.csv"
        fake.fake_reset(1, 1)
        assert run("energy", "-o", out, "--interval", "1ms", "--", "sleep", "0.06")[0] == 0
        fake.fake_lose_after(0, reads + asked)
        words = ["-o", out, "--samples", samples, "--interval", "1ms", "--at-least", "0ms", "--rounds", "1000"]
        code, text, _ = run("energy", *words, "--json", "--", "sleep", "0.06")
        found = document(text, "energy")
        assert (code, found["complete"], found["interrupted"]) == (6, False, False)
        assert "GPU is lost" in found["why"]
        assert len(rows(samples)) == reads
        whole = [one for one in found["rounds"] if one["why"] is None]
        assert len(rows(out)) == 1 + len(whole)


class Leaving:
    """A counter that is gone as soon as a measurement is in the file."""

    about = SensorFacts("leaving", "a counter", SensorKind.COUNTER, Scope.GPU)

    def __init__(self, out: Path) -> None:
        self.out, self.energy = out, 0

    def value(self) -> int:
        if rows(self.out):
            raise SensorError("it left")
        self.energy += 1000
        return self.energy


def test_a_sensor_that_vanishes_between_rounds(run: Gpurt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "powers.csv"
    monkeypatch.setattr(find, "chosen_sensors", lambda names: [Leaving(out)])
    words = ["--interval", "1ms", "--rounds", "3", "-o", out, "--json", "--", "sleep", "0.04"]
    code, text, _ = run("energy", *words)
    found = document(text, "energy")
    assert (code, found["complete"], found["why"]) == (6, False, "it left")
    assert [one["why"] for one in found["rounds"]] == [None]
    assert len(rows(out)) == 1


def test_a_file_that_vanishes_while_the_program_runs(run: Gpurt, root: Path, tmp_path: Path) -> None:
    counter, samples, mark = trees.rapl(root, energy="0" * 12), tmp_path / "samples.csv", tmp_path / "mark"
    program = WRITER + f"open({str(mark)!r}, 'w')"
    words = ["--sensor", "rapl:0", "--interval", "2ms", "--samples", samples, "--json", "--"]
    code, text, _ = run("energy", *words, *PYTHON, program, counter, "0,200000,1000", "0.003", "vanish")
    found = document(text, "energy")
    assert code == 6
    assert "the sensor is gone" in found["why"]
    ((energy,),) = (one["sensors"] for one in found["rounds"])
    assert energy["energy_uj"] == int(rows(samples)[-1]["energy_uj"]) > 0
    assert mark.exists()  # the program was left to end


def test_a_counter_that_wraps_goes_on(run: Gpurt, root: Path) -> None:
    """Written by a thread of this test, also after the program, and modulo 200,000."""
    counter, over = trees.rapl(root, energy="000000199000", most=200_000), threading.Event()
    file = os.open(counter, os.O_WRONLY)

    def grow() -> None:
        value = 199_000
        while not over.wait(0.002):
            value += 100
            os.pwrite(file, b"%012d" % (value % 200_000), 0)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        words = ["--sensor", "rapl:0", "--interval", "1ms", "--json", "--"]
        code, text, _ = run("energy", *words, "sleep", "0.15")
    finally:
        over.set()
        writer.join()
        os.close(file)
    ((energy,),) = (one["sensors"] for one in document(text, "energy")["rounds"])
    assert code == 0
    assert energy["energy_uj"] % 100 == 0
    assert energy["energy_uj"] >= 100 * energy["changes"] > 0
    assert energy["error_uj"] < 200_000


def test_a_counter_that_is_reset_ends_the_measurement(run: Gpurt, root: Path) -> None:
    counter = trees.rapl(root, energy="000900000000")
    words = ["--sensor", "rapl:0", "--interval", "1ms", "--"]
    code, text, _ = run("energy", *words, *PYTHON, WRITER, counter, "0,5000,1000", "0.02")
    assert code == 6
    assert "ENDED EARLY: rapl:0: the counter went from 900000000 to" in text


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_a_signal_keeps_what_was_measured(name: str, run: Gpurt, fake: Any, tmp_path: Path) -> None:
    out = tmp_path / "powers.csv"
    # it is started again until the first measurement is in the file, as a second line
    first = f'[ "$(wc -l <{out})" -gt 1 ] || {{ sleep 0.1; exit; }}'
    program = f"{first}; kill -{name} {os.getpid()}; exec sleep 9"
    words = ["-o", out, "--interval", "1ms", "--rounds", "9", "--json", "--", "sh", "-c", program]
    number = signal.Signals[f"SIG{name}"]
    before = signal.getsignal(number)
    code, text, _ = run("energy", *words)
    found = document(text, "energy")
    assert (code, found["interrupted"], found["why"]) == (130, True, "interrupted")
    assert [one["why"] for one in found["rounds"]] == [None, "interrupted"]
    assert len(rows(out)) == 1
    assert signal.getsignal(number) is before


def test_a_program_that_fails_is_told(run: Gpurt, fake: Any, tmp_path: Path) -> None:
    out = tmp_path / "powers.csv"
    code, text, _ = run("energy", "-o", out, "--", "sh", "-c", "exit 3")
    assert (code, rows(out)) == (6, [])
    assert "ENDED EARLY: the program ended with exit code 3" in text
    code, text, _ = run("energy", "--", "sh", "-c", "kill -9 $$")
    assert (code, "ended by signal 9" in text) == (6, True)


def test_mistakes_get_one_clear_line(run: Gpurt, fake: Any, tmp_path: Path) -> None:
    other, cut = tmp_path / "other.csv", tmp_path / "cut.csv"
    other.write_text("a,b\n")
    cut.write_text(",".join(measured.MEASURED_COLUMNS) + "\nx")
    wrong = [
        (["--kernel", "a", "--units", "1"], 2, "name a program to measure"),
        (["--", "/nonexistent/x"], 6, "/nonexistent/x: cannot be started: No such file"),
        (["--", "/"], 6, "/: cannot be started: Permission denied"),
        (["--sensor", "nvml:9:energy", "--", "true"], 6, "there is no sensor 'nvml:9:energy'"),
        (["--kernel", "a", "--", "true"], 2, "--kernel and --units go together"),
        (["--kernel", "a+b", "--units", "3", "--", "true"], 2, "a number for each kernel"),
        (["--kernel", "a,b", "--units", "3", "--", "true"], 2, "--kernel: expected names"),
        (["--kernel", "a", "--units", "3,", "--", "true"], 2, "a number for each kernel"),
        (["--kernel", "a", "--units", "1,2", "--", "true"], 2, "--units: several, but the program does not get which"),
        (["--kernel", "a", "--kernel", "b", "--units", "1", "--", "{units}"], 2, "write {kernel} in its arguments"),
        (["--kernel", "a", "--units", "2,2", "--", "{units}"], 2, "--units: names something twice"),
        (["--gpu-clock", "fast", "--", "true"], 2, "--gpu-clock: expected a clock"),
        (["--interval", "0ms", "--", "true"], 2, "--interval: must be longer than 0"),
        (["--rounds", "0", "--", "true"], 2, "--rounds"),
        (["-o", tmp_path / "x", "--samples", tmp_path / "x", "--", "true"], 2, "name the same file"),
        (["-o", other, "--", "true"], 3, "other.csv: cannot be continued: its first line is another one"),
        (["-o", cut, "--", "true"], 3, "cut.csv: cannot be continued: its last line is incomplete"),
        (["-o", tmp_path, "--", "true"], 3, "cannot be written: Is a directory"),
        (["-o", "/nonexistent/x", "--", "true"], 3, "/nonexistent/x: cannot be written"),
        (["--samples", "/dev/full", "--", "true"], 3, "/dev/full: cannot be written: No space left"),
    ]  # fmt: skip
    for words, expected, message in wrong:
        code, out, err = run("energy", *words)
        assert (code, out) == (expected, ""), words
        assert message in err
        assert len(err.splitlines()) == 1, err
        assert "bug" not in err
    assert other.read_text() == "a,b\n"


def test_sensors_are_listed_with_reasons(run: Gpurt, fake: Any, tmp_path: Path) -> None:
    fake.fake_has(0, 1, 1, 0)
    trees.rapl(tmp_path / "sys", energy=123_456)
    code, text, err = run("energy", "--at-least", "500ms")
    assert code == 0
    assert "nvml:0:power" in text
    assert "NVML says: Not Supported" in text
    assert "note: nvml:0:power: did not change in 0.5 s: is it stuck?" in err
    found = document(run("energy", "--at-least", "500ms", "--json")[1], "energy")
    by_name = {one["name"]: one for one in found["sensors"]}
    assert by_name["nvml:0:energy"]["changes"] > 0
    assert by_name["nvml:0:power"]["changes"] == by_name["rapl:0"]["changes"] == 0
    assert (by_name["rapl:0"]["energy_uj"], by_name["rapl:0"]["power_uw"]) == (123_456, None)
    assert by_name["rapl:0"]["wrap_uj"] == 262_143_328_850
    assert {one["name"] for one in found["absent"]} == {"nvml:0:instant", "nvml:0:average"}
    assert document(run("energy", "--json")[1], "energy")["sensors"][0]["changes"] is None


def test_no_sensor_is_the_answer_no(run: Gpurt, root: Path) -> None:
    code, text, _ = run("energy")
    assert code == 1
    assert "there is no sensor that can be read" in text
    assert document(run("energy", "--json")[1], "energy")["sensors"] == []
    code, text, err = run("energy", "--", "true")
    assert (code, text) == (6, "")
    assert "this machine has no sensor of a GPU; nvml: nvidia-ml-py is not installed" in err


def test_a_sensor_that_fails_while_it_is_watched_says_why(run: Gpurt, fake: Any) -> None:
    fake.fake_lose_after(0, 4)  # when it is found
    found = document(run("energy", "--at-least", "20ms", "--json")[1], "energy")
    assert len(found["notes"]) == 4
    assert all(note.endswith("NVML says: GPU is lost") for note in found["notes"])
