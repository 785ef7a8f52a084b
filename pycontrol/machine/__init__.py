# SPDX-License-Identifier: GPL-2.0
"""This machine: its fitness for real time, its processes, GPUs and drivers."""
