# SPDX-License-Identifier: GPL-2.0
"""Experiments on an existing Dask cluster, whose workers need gpurt installed (optional: gpurt[dask])."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from functools import partial
from typing import Any

from distributed import Client
from distributed.comm import CommClosedError

from analysis.answers.fingerprint import source_fingerprint
from gpurt.errors import RuntimeFailure

GONE = "the Dask cluster is gone; what it has done is kept: start one, and give the same command again"


def connect(address: str, timeout: float = 10) -> Cluster:
    """Connects to a scheduler.  Raises OSError if none answers within ``timeout`` seconds."""
    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.startswith("distributed"):  # they log tracebacks of what is an error of ours then
            logging.getLogger(name).setLevel(logging.CRITICAL)
    return Cluster(Client(address, timeout=timeout))


class Cluster(Executor):
    """The workers of a cluster, as an executor whose context is the connection.

    A call raises RuntimeFailure if the cluster goes away, or a worker cannot do it or has other analyses than ours.
    """

    def __init__(self, client: Client) -> None:
        self.client = client

    def submit(self, call: Callable[..., object], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As Executor has it.

        Dask's own executor takes the result of a call whose worker leaves at that moment for an error's.
        """
        outer: Future[Any] = Future()
        inner = self.client.submit(_call, source_fingerprint(), call, *args, pure=False, **kwargs)
        inner.add_done_callback(partial(_pass_on, outer=outer))  # in another thread
        return outer

    def workers(self) -> int:
        """How many workers there are now."""
        return len(self.client.scheduler_info()["workers"])

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnects; the cluster stays."""
        self.client.close()


def _pass_on(inner: Future[Any], outer: Future[Any]) -> None:
    if not outer.set_running_or_notify_cancel():
        return
    try:
        outer.set_result(inner.result())
    except RuntimeFailure as error:
        outer.set_exception(error)
    except (CancelledError, CommClosedError):
        outer.set_exception(RuntimeFailure(GONE))
    except Exception as error:  # of its own packages, or of Dask, such as that workers died of it again and again
        text = f"a worker of the Dask cluster failed: {type(error).__name__}: {str(error)[:200]}"
        outer.set_exception(RuntimeFailure(f"{text}; each machine needs the same release of gpurt"))


def _call(wanted: str, call: Callable[..., object], /, *args: object, **kwargs: object) -> object:
    """On a worker."""
    if source_fingerprint() != wanted:
        text = f"the Dask worker on {platform.node()} has other analyses than this machine, and would count by them"
        raise RuntimeFailure(f"{text}; install the same release of gpurt there")
    return call(*args, **kwargs)
