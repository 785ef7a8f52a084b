# SPDX-License-Identifier: GPL-2.0
"""Contention-aware partitioning of a GPU and allocation of tasks to partitions (Zahaf et al.)."""
