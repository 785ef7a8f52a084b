# SPDX-License-Identifier: GPL-2.0
"""Judges observations by a taskset file."""
