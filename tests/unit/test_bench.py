# SPDX-License-Identifier: GPL-2.0
"""scripts/bench, as short as it can be: every benchmark runs and yields its figures.

They mean nothing here, except those of counted instructions, which each run repeats.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Some of what each benchmark measures.  One on a GPU is tried in tests/preload, on a fake one.
FIGURES = {
    "agents": {"agents.none.0.k1.p50_us", "agents.isolated.1.k1.max_us", "agents.isolated.1.k1.best_effort_percent"},
    "analysis": {"analysis.gcaps-suspend.speedup", "analysis.fig8_all.seconds", "analysis.large_taskset.seconds"},
    "answers": {"answers.analyze.300.cpu_seconds", "answers.margins.100.cpu_seconds", "answers.modes.100.cpu_seconds"},
    "attacks": {"attacks.alone_us.p50", "attacks.queries.ratio", "attacks.readers_us.max", "attacks.waits.ratio"},
    "core": {"core.pair_ns.8", "core.ratio_4096_8"},
    "energy": {"energy.decision_us.10", "energy.sbeet-mg.jobs_per_s", "energy.fig3_13_cpu_seconds"},
    "emulator": {"emulator.completion_error_ms.p99", "emulator.begin_end_us.p50"},
    "kernel": {"kernel.begin_end_over_noop", "kernel.poll_reaction_us.p50", "kernel.notify_reaction_us.p99"},
    "partition": {"partition.50_tasks.four_variants", "partition.200_tasks.sms-ina"},
    "peers": {"peers.simso.jobs_per_s", "simulate.over_simso"},
    "rtgpu": {"rtgpu.rtgpu.7_tasks_28_units.ms", "rtgpu.nanosecond_below_second.ms", "rtgpu.fig8_to_11.seconds"},
    "simulate": {"simulate.jobs_per_s"},
    "watch": {"watch.cpu_us_per_event", "watch.cpu_percent_at_10000_events_per_s"},
}
#: Limits of figures: a begin and an end over two ioctls that do nothing; beside 1,000 clients over beside one.
COUNTED = {
    f"kernel.counted.{figure}": most
    for kind in ("real_time", "best_effort")
    for figure, most in ((f"begin_end_over_noop.{kind}.1", 2.95), (f"begin_end_1000_over_1.{kind}", 1.01))
}
MISSING = 3
#: The only one without --all: a tool of ours, which few changes touch.
SHORT = "simulate"


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow, pytest.mark.timeout(3600)] * (name != SHORT)) for name in FIGURES],
)
def test_a_benchmark_yields_its_figures(name: str) -> None:
    command = ["setpriv", "--pdeathsig", "TERM", sys.executable, ROOT / "scripts/bench", name, "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == MISSING:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
    figures = {line["name"]: line["value"] for line in map(json.loads, done.stdout.splitlines())}
    assert FIGURES[name] <= set(figures)
    assert all(value > 0 for value in figures.values()), figures
    if name == "kernel" and not Path("/dev/gpurt").exists():
        assert {figure: figures[figure] for figure, most in COUNTED.items() if not figures[figure] <= most} == {}


def test_several_runs_give_a_range() -> None:
    command = [sys.executable, ROOT / "scripts/bench", "simulate", "--quick", "--runs", "3"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = list(map(json.loads, done.stdout.splitlines()))
    assert figures
    assert all(figure["least"] <= figure["value"] <= figure["most"] for figure in figures)
    assert {figure["runs"] for figure in figures} == {3}
    assert any(figure["least"] < figure["most"] for figure in figures)
    done = subprocess.run([*command[:-1], "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--runs" in done.stderr


def test_every_benchmark_is_tried() -> None:
    names = {path.stem for path in (ROOT / "scripts/benchmarks").glob("*.py")}
    assert names == {*FIGURES, "gpu"}
