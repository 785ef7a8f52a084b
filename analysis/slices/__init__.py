# SPDX-License-Identifier: GPL-2.0
"""Time partitions: slices and interleave levels of TSGs, their supply, and a plan from the tasks' demand."""
