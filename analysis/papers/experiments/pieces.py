# SPDX-License-Identifier: GPL-2.0
"""Pieces of work on an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, as_completed
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def finished(
    pool: Executor, call: Callable[[Piece], Result], pieces: Iterable[Piece]
) -> Iterator[tuple[Piece, Result]]:
    """Each piece and what ``call`` makes of it, in the order in which they finish.

    Calls that have not begun are cancelled if the reader goes away or a call fails.  Raises what a call raises.
    """
    futures: dict[Future[Result], Piece] = {pool.submit(call, piece): piece for piece in pieces}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()
