# SPDX-License-Identifier: GPL-2.0
"""Functions that a segment is put around: the kinds that it can cover, and the kinds whose work would outlast it."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def awaits(function: Callable[..., Any]) -> bool:
    """Whether what it returns is awaited: a coroutine function, or an object whose ``__call__`` is one.

    Raises:
        TypeError: it is no function, or what it executes begins after it has returned, where a segment has ended.
    """
    if isinstance(function, type):
        raise TypeError(f"a segment is put around functions: decorate methods of class {_name(function)}")
    if not callable(function):
        raise TypeError(f"a segment is put around functions, not around an object of type {_name(function)}")
    called = (function, type(function).__call__)
    if any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in called):
        raise TypeError(f"a segment would end before the generator {_name(function)} begins: put it around each step")
    return any(inspect.iscoroutinefunction(one) for one in called)


def refuse_coroutine(function: Callable[..., Any], result: object) -> None:
    """Raises TypeError if a function returned a coroutine, as other decorators make it of a coroutine function."""
    if isinstance(result, types.CoroutineType):
        result.close()
        raise TypeError(
            f"a segment would end before the coroutine of {_name(function)} begins: put it around the coroutine "
            "function, below other decorators"
        )
