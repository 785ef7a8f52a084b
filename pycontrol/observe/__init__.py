# SPDX-License-Identifier: GPL-2.0
"""Observations of a running system, compared with what a taskset file says."""
