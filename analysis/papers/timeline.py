# SPDX-License-Identifier: GPL-2.0
"""How many threads of each kernel a GPU executes over time, as figure 7 of the paper draws it, for Perfetto."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.papers.dispatch import Dispatcher, LaunchStream, Readable, Settings
from analysis.traces.trace import Event, Kind, Trace

#: The readable model draws; more blocks than these take it more than a few seconds.
MAX_BLOCKS_DRAWN = 100_000


class _Drawn(Readable):
    """The model, which also notes what executes after each event, and each kernel."""

    def __init__(self, gpu: Dispatcher, streams: Sequence[LaunchStream], settings: Settings) -> None:
        super().__init__(gpu, streams, settings)
        self.threads: list[list[tuple[int, int]]] = [[(0, 0)] for _ in streams]
        self.kernels: list[Event] = []
        self._seen = [0] * len(streams)

    def _dispatch(self) -> None:
        super()._dispatch()
        for slot, stream in enumerate(self.streams):
            active = self.running[slot] * stream.threads
            if active != self.threads[slot][-1][1]:
                self.threads[slot].append((self.now, active))

    def _end(self) -> None:
        super()._end()
        for slot, times in enumerate(self.times):
            if len(times) > self._seen[slot]:
                self._seen[slot] = len(times)
                start, name = self.now - times[-1], self.streams[slot].name
                self.kernels.append(Event(start, Kind.GPU, name, len(times) - 1, times[-1]))


def timeline(gpu: Dispatcher, streams: Sequence[LaunchStream], settings: Settings) -> Trace:
    """The kernels that end, and the threads of each stream that execute from each instant on."""
    drawn = _Drawn(gpu, streams, settings)
    drawn.run()
    counters = {f"threads of {one.name}": tuple(found) for one, found in zip(streams, drawn.threads, strict=True)}
    ordered = tuple(sorted(drawn.kernels, key=lambda event: event.time))
    return Trace({"source": "mask simulate", "clock": "virtual"}, ordered, {}, drawn.now, counters)


def blocks(streams: Sequence[LaunchStream], settings: Settings) -> int:
    """About how many blocks a run has: those of the first stream, and as long as they take of the others."""
    first = streams[0].blocks * streams[0].threads
    return sum(settings.launches * max(one.blocks, first // one.threads) for one in streams)
