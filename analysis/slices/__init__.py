# SPDX-License-Identifier: GPL-2.0
"""Time partitions: slices and interleave levels of TSGs, what they supply, and a plan from what tasks demand."""
