# SPDX-License-Identifier: GPL-2.0
"""Experiments on an existing Dask cluster, whose workers need gpurt installed (optional: gpurt[dask])."""

from __future__ import annotations

from concurrent.futures import Executor

from distributed import Client


def connect(address: str, timeout: float = 10) -> _Connected:
    """Connects to a scheduler.  Raises OSError if none answers within ``timeout`` seconds."""
    return _Connected(Client(address, timeout=timeout))


class _Connected:
    """A context manager that yields the cluster's executor and disconnects at its end."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def __enter__(self) -> Executor:
        executor: Executor = self.client.get_executor()
        return executor

    def __exit__(self, *_: object) -> None:
        self.client.close()
