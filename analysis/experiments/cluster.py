# SPDX-License-Identifier: GPL-2.0
"""Experiments on an existing Dask cluster, whose workers need gpurt installed (optional: gpurt[dask])."""

from __future__ import annotations

import hashlib
import logging
import platform
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import cache
from pathlib import Path
from typing import Any

from distributed import Client

from gpurt.errors import RuntimeFailure

GONE = "the Dask cluster is gone; what it has done is kept: start one, and give the same command again"


def connect(address: str, timeout: float = 10) -> Cluster:
    """Connects to a scheduler.  Raises OSError if none answers within ``timeout`` seconds."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it logs tracebacks of what is an error of ours then
    return Cluster(Client(address, timeout=timeout))


class Cluster(Executor):
    """The workers of a cluster, as an executor whose context is the connection.

    A call raises RuntimeFailure if the cluster goes away, or a worker cannot do it or has other analyses than ours.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._pool: Executor = client.get_executor()

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As Executor has it."""
        inner = self._pool.submit(_call, sources(), call, *args, **kwargs)
        outer: Future[Any] = Future()
        inner.add_done_callback(lambda done: _pass_on(done, outer))
        outer.add_done_callback(lambda done: done.cancelled() and inner.cancel())
        return outer

    def workers(self) -> int:
        """How many workers there are now."""
        return len(self.client.scheduler_info()["workers"])

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnects; the cluster stays."""
        self.client.close()


def _pass_on(done: Future[Any], outer: Future[Any]) -> None:
    if not outer.set_running_or_notify_cancel():
        return
    if done.cancelled():
        outer.set_exception(RuntimeFailure(GONE))
    elif (error := done.exception()) is None:
        outer.set_result(done.result())
    elif isinstance(error, RuntimeFailure):
        outer.set_exception(error)
    else:  # of its own packages, or of Dask, such as a worker that died again and again
        text = f"a worker of the Dask cluster failed: {type(error).__name__}: {str(error)[:200]}"
        outer.set_exception(RuntimeFailure(f"{text}; each machine needs the same release of gpurt"))


def _call(wanted: str, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """On a worker."""
    if sources() != wanted:
        text = f"the Dask worker on {platform.node()} has other analyses than this machine, and would count by them"
        raise RuntimeFailure(f"{text}; install the same release of gpurt there")
    return call(*args, **kwargs)


@cache
def sources() -> str:
    """A hash of the Python sources of package analysis, here."""
    folder = Path(__file__).resolve().parents[1]
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        found.update(f"{path.relative_to(folder)}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()
