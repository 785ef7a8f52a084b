# SPDX-License-Identifier: GPL-2.0
"""The machine that this runs on: what real time needs of it, its processes, GPUs and drivers."""
