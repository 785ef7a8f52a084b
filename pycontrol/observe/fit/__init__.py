# SPDX-License-Identifier: GPL-2.0
"""Compares a host with a taskset file."""
