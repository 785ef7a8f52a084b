# SPDX-License-Identifier: GPL-2.0
"""How commands end at Ctrl-C, SIGTERM and SIGHUP.

Commands that record keep what they have (`asked`, `raised_signals`); commands that compute end soon (`soon`).

Python calls a signal's handler between two lines of Python, in the main thread.  A call of C code, or the end of a pool
of threads, can delay that for minutes.  So another thread learns of the signal as well, by the descriptor that Python's
own handler in C writes to.  That thread ends the process if the main thread has not done so after GRACE.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from gpurt import files
from pycontrol.signals import END_SIGNALS, interrupt

#: The signals that end a recording: Ctrl-C, the end of a service or batch job, the end of a terminal or ssh session.
RECORDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How long the main thread has to end by itself, seconds.
GRACE = 0.5
#: How long `tell` may take, seconds: enough on a busy machine, and a limit if nobody reads stderr.
TELLING = 5.0


class SignalEvent(threading.Event):
    """An event that a signal's handler may set.

    A handler interrupts the main thread anywhere.  A main thread that waits for a threading.Event may hold the event's
    lock; a handler that sets the event would then wait for ever.
    """

    def __init__(self) -> None:
        super().__init__()
        self._happened = False
        self._gate = threading.Lock()  # free while the event is set
        self._gate.acquire()

    def is_set(self) -> bool:
        """As threading.Event."""
        return self._happened

    def set(self) -> None:
        """As threading.Event, but also safe in a signal's handler."""
        self._happened = True
        with suppress(RuntimeError):  # the gate is free already
            self._gate.release()

    def clear(self) -> None:
        """As threading.Event."""
        self._gate.acquire(blocking=False)
        self._happened = False

    def wait(self, timeout: float | None = None) -> bool:
        """As threading.Event."""
        if not self._happened and self._gate.acquire(timeout=-1 if timeout is None else max(0, timeout)):
            self.set()  # for other waiting threads
        return self._happened


@contextmanager
def soon(tell: Callable[[int], None]) -> Iterator[None]:
    """While the context is entered, SIGINT and SIGTERM end the process within about a second.

    ``tell``: called with the exit code, to report the end, if the main thread does not end the process.  No file that
    `gpurt.files` has begun to write stays.  Signals that are ignored, or that a command handles itself, keep their
    effect.  Does nothing outside the main thread, which alone handles signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if handled:
        signal.signal(signal.SIGTERM, interrupt)
    watch = _Watch(tell)
    try:
        yield
    finally:
        watch.close()
        if handled:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def asked() -> Iterator[threading.Event]:
    """While the context is entered, signals of RECORDING set the event that this yields, and raise nothing.

    An exception between reading a packet and storing its event would lose the event.  For the main thread only.
    """
    stop = SignalEvent()
    with _handled(lambda *_: stop.set()):
        yield stop


@contextmanager
def raised_signals() -> Iterator[None]:
    """While the context is entered, SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does."""
    with _handled(interrupt):
        yield


@contextmanager
def later() -> Iterator[None]:
    """Delays the signals of RECORDING until the context is left.

    By then the caller has noted what it began, so that it can undo it at its end.  Masking the signals would not help:
    another thread could get them, and Python's main thread would act on them at once.
    """
    late: list[int] = []
    try:
        with _handled(lambda number, _frame: late.append(number)):
            yield
    finally:
        for number in late:
            signal.raise_signal(number)


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Sets this handler for RECORDING inside the context; an ignored signal (nohup) stays ignored.

    Does nothing outside the main thread, which alone handles signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in RECORDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in taken}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class _Watch:
    """The thread that learns of signals, until it is closed."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._writer, False)
        self._before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._run, name="ending", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread.  Does not return if the thread is already ending the process."""
        with self._lock:
            self._closed.set()
        signal.set_wakeup_fd(self._before)
        os.close(self._writer)  # the thread reads that as its end
        self._thread.join()

    def _run(self) -> None:
        while number := next(iter(os.read(self._reader, 1)), None):
            if number in END_SIGNALS and signal.getsignal(number) is interrupt and not self._closed.wait(GRACE):
                self._end(128 + number)
        os.close(self._reader)

    def _end(self, code: int) -> None:
        with self._lock:
            if not self._closed.is_set():
                files.discard_unfinished()
                _kill_workers()
                teller = threading.Thread(target=self._tell, args=(code,), daemon=True)
                teller.start()
                teller.join(TELLING)
                os._exit(code)


def _kill_workers() -> None:
    """Ends the processes of a pool, which would otherwise wait for work for ever.

    The pool's threads notice by themselves.
    """
    threading.excepthook = lambda _: None
    if pools := sys.modules.get("multiprocessing"):
        for worker in pools.active_children():
            worker.kill()


def _forked() -> None:
    """Resets signal handling in a process of a pool: its parent ends it by SIGTERM."""
    if signal.getsignal(signal.SIGTERM) is interrupt:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)


os.register_at_fork(after_in_child=_forked)
