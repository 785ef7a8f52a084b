# SPDX-License-Identifier: GPL-2.0
"""Whether compiled kernels are what gpurt_sm.h promises, and whether two blocks fit on an SM (docs/rtgpu.md)."""
