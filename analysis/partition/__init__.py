# SPDX-License-Identifier: GPL-2.0
"""Contention-aware partitioning of a GPU and allocation of tasks to partitions (Zahaf et al.)."""

from __future__ import annotations

from analysis.partition.merge import Infeasible, Part
from analysis.partition.variants import ORDERS, VARIANTS, Allocation, best, run
from analysis.partition.workload import Item, Workload

__all__ = ["ORDERS", "VARIANTS", "Allocation", "Infeasible", "Item", "Part", "Workload", "best", "run"]
