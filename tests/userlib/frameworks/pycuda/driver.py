# SPDX-License-Identifier: GPL-2.0
"""The part of PyCUDA's driver interface that docs/frameworks.md uses."""

from virtual_work import Stream

__all__ = ["Stream", "mem_alloc"]


def mem_alloc(size):
    return bytearray(size)
