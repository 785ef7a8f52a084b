# SPDX-License-Identifier: GPL-2.0
"""Tasks that own units of the GPU and share a bus (RTGPU): bounds, allocation of units, attack (docs/rtgpu.md)."""
