# SPDX-License-Identifier: GPL-2.0
"""Segments around real PyTorch on the CPU; test_real_frameworks.py executes this where PyTorch is to be had.

With a PyTorch of one's own: ``python -m pytest tests/userlib/real_torch.py``.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from framework_programs import seen

from analysis.model import Platform
from gpurt import Client, segment
from gpurt.enums import EventKind
from gpurt.streams import check
from pycontrol.act.run.emulator import Emulator
from pycontrol.link.control import Control, connect
from pycontrol.machine.placement import fifo_permitted

torch: Any = pytest.importorskip("torch")
PROGRAM = Path(__file__).with_name("torch_workers.py")


class Host:
    """The host's facts about this process's segments; as a stream it notes how many are open when it is waited for."""

    waits: list[int]

    def __init__(self, control: Control) -> None:
        self._control, self.waits = control, []

    @property
    def depth(self) -> int:
        return sum(one.depth for one in self._control.clients() if one.pid == os.getpid())

    def synchronize(self) -> None:
        self.waits.append(self.depth)


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    with Emulator(Platform(1)) as running:
        os.environ["GPURT_DEVICE"] = str(running.socket)
        yield str(running.socket)


@pytest.fixture(scope="module")
def connected(socket: str) -> Iterator[Host]:
    with connect(socket) as control:
        yield Host(control)


#: Stands for a stream that a module's method finds when it begins.
HOST: list[Host] = []


@pytest.fixture
def host(connected: Host) -> Iterator[Host]:
    connected.waits.clear()
    HOST[:] = [connected]
    yield connected
    assert connected.depth == 0


def current_host() -> Host:
    return HOST[0]


class Model(torch.nn.Module):
    """Its forward pass is a segment."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    @segment(stream=current_host)
    def forward(self, values):
        return self.layer(values)


class Holder(torch.nn.Module):
    """Has a segment of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.around = segment(stream=current_host)
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, values):
        with self.around:
            return self.layer(values)


def ones(**given: Any) -> Any:
    return torch.ones(4, **given)


@pytest.mark.parametrize("kind", [Model, Holder])
@pytest.mark.parametrize("way", ["itself", "deepcopy", "pickle", "wrapped"])
def test_a_model_is_one_segment_a_call(host: Host, kind: type, way: str) -> None:
    model: Any = kind()
    expected = torch.nn.functional.linear(ones(), model.layer.weight, model.layer.bias)
    made = {
        "itself": lambda: model, "deepcopy": lambda: copy.deepcopy(model),
        "pickle": lambda: pickle.loads(pickle.dumps(model)), "wrapped": lambda: segment(stream=host)(model.layer),
    }[way]()  # fmt: skip
    assert torch.equal(made(ones()), expected)
    assert host.waits == [1]


def test_an_exception_of_the_model_ends_its_segment(host: Host) -> None:
    with pytest.raises(RuntimeError, match="shapes"):
        Model()(torch.ones(5))
    assert host.waits == [1]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_modes_hold_in_a_segment_and_a_segment_in_modes(host: Host, mode: Callable[..., Any]) -> None:
    layer = torch.nn.Linear(4, 2)
    inside, outside = segment(stream=host)(mode()(layer.forward)), mode()(segment(stream=host)(layer.forward))
    assert not inside(ones()).requires_grad
    assert not outside(ones()).requires_grad
    with segment(stream=host), mode():
        assert not layer(ones()).requires_grad
    assert torch.is_grad_enabled()
    assert host.waits == [1, 1, 1]


def test_gradients_pass_through_a_segment(host: Host) -> None:
    """Also where they are computed; a checkpoint computes its function twice, in a segment each time."""
    layer, values = torch.nn.Linear(4, 2), ones(requires_grad=True)
    with segment(stream=host):
        layer(values).sum().backward()
    assert torch.equal(values.grad, layer.weight.sum(0))
    assert host.waits == [1]
    torch.utils.checkpoint.checkpoint(segment(stream=host)(layer), values, use_reentrant=False).sum().backward()
    assert torch.equal(values.grad, 2 * layer.weight.sum(0))
    assert host.waits == [1, 1, 1]


def test_what_is_compiled_can_be_decorated(host: Host) -> None:
    compiled = torch.compile(lambda values: values.relu() + 1, backend="aot_eager", fullgraph=True)
    around: Any = segment(stream=host)(compiled)
    for _ in range(3):
        assert torch.equal(around(ones()), 2 * ones())
    assert host.waits == [1, 1, 1]


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace:UserWarning")
def test_what_is_decorated_breaks_the_graph(host: Host) -> None:
    """It has a segment each time all the same: the begin is not what is compiled."""

    @segment(stream=host)
    def function(values: Any) -> Any:
        return values.relu() + 1

    compiled = torch.compile(function, backend="aot_eager")
    for _ in range(3):
        assert torch.equal(compiled(ones()), 2 * ones())
    assert host.waits == [1, 1, 1]
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(function, backend="aot_eager", fullgraph=True)(ones())
    assert host.depth == 0


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_what_is_exported_has_no_segment(host: Host) -> None:
    """The page says so.  Exported models must be decorated again."""
    model = Model()
    made = [torch.export.export(model, (ones(),)).module(), torch.fx.symbolic_trace(model)]
    host.waits.clear()
    for one in made:
        assert torch.equal(one(ones()), model.layer(ones()))
    assert host.waits == []
    segment(stream=host)(made[0])(ones())
    assert host.waits == [1]


def test_modes_around_a_coroutine_are_refused(host: Host) -> None:
    """PyTorch's decorator makes a plain function of it, and does not hold in the coroutine."""

    @segment(stream=host)
    @torch.inference_mode()
    async def wrong() -> None:
        pytest.fail("it ran")

    @segment(stream=host)
    async def right() -> bool:
        with torch.inference_mode():
            return bool(torch.is_inference_mode_enabled())

    with pytest.raises(TypeError, match="put it around the coroutine function"):
        wrong()
    host.waits.clear()
    assert asyncio.run(right())
    assert host.waits == [1]


def test_what_of_pytorch_is_a_stream(host: Host) -> None:
    for module in (torch.cuda, torch.cpu, torch.accelerator, torch.xpu, torch.mps):
        check(module)
    for function in (torch.cuda.current_stream, torch.accelerator.current_stream, torch.cpu.current_stream):
        check(function)
    for kind in (torch.cuda.Stream, torch.cuda.Event, torch.Stream, torch.Event):
        assert callable(kind.synchronize)
        with pytest.raises(TypeError, match="is a class"):
            check(kind)
    with segment(stream=torch.cpu):
        assert host.depth == 1
    # Streams of the CPU cannot be waited for, in PyTorch: the page names torch.cpu.
    with pytest.raises(TypeError, match="returned a Stream, which has no"), segment(stream=torch.cpu.current_stream):
        pytest.fail("the block was entered")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_leaves_no_segment_open(host: Host) -> None:
    for stream in (torch.cuda, torch.cuda.current_stream):
        with pytest.raises((RuntimeError, AssertionError), match=r"NVIDIA|CUDA"), segment(stream=stream):
            assert host.depth == 1
    assert host.depth == 0


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_workers_have_segments_of_their_own(socket: str, way: str) -> None:
    """A DataLoader is used in a segment: its workers have none open, and begin and end their own."""
    records, parent, out = seen(socket, [sys.executable, str(PROGRAM), way])
    workers = json.loads(out)
    ours = [one for one in records if one.kind in (EventKind.BEGIN, EventKind.END)]
    by_process = {pid: [one.kind for one in ours if one.pid == pid] for pid in (parent, *workers)}
    pair = [EventKind.BEGIN, EventKind.END]
    assert len(workers) == 3
    assert by_process == {parent: pair, **{pid: pair * count for pid, count in zip(workers, (2, 2, 1), strict=True)}}
    mine = [at for at, one in enumerate(ours) if one.pid == parent]
    inside = [at for at, one in enumerate(ours) if one.pid in workers[:2]]
    assert mine[0] < min(inside) <= max(inside) < mine[1]


POOL = """
import json, os, sys
import gpurt, torch

os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
torch.set_num_threads(3)
if sys.argv[1] == "warm":
    torch.ones(1000, 1000).exp_()
before = set(os.listdir("/proc/self/task"))
with gpurt.segment():
    torch.ones(1000, 1000).exp_()
made = set(os.listdir("/proc/self/task")) - before
print(json.dumps([os.sched_getscheduler(int(one)) for one in made]))
"""


@pytest.mark.skipif(not fifo_permitted(40), reason="SCHED_FIFO is not permitted")
@pytest.mark.parametrize(("first", "made"), [("cold", [0, 0]), ("warm", [])])
def test_threads_that_pytorch_makes_in_a_raised_segment_are_not_real_time(first: str, made: list[int]) -> None:
    """The page says: use the model once before the first segment.  Policy `boosted` raises one thread only."""
    with Emulator(Platform(1), policy="boosted") as running:
        environment = {**os.environ, "GPURT_DEVICE": str(running.socket)}
        command = [sys.executable, "-c", POOL, first]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == made


def test_threads_of_a_process_share_its_client(host: Host, socket: str) -> None:
    """Work that another thread launches is in the segment of the client, and a thread may have a client of its own."""
    with segment(stream=host):
        (found,) = torch.futures.wait_all([_in_thread(lambda: host.depth)])
        assert found == 1
        with Client(socket) as own, segment(client=own):
            assert host.depth == 2


def _in_thread(function: Callable[[], Any]) -> Any:
    import threading

    future = torch.futures.Future()
    threading.Thread(target=lambda: future.set_result(function())).start()
    return future
