# SPDX-License-Identifier: GPL-2.0
"""Starts the programs of a file."""
