# SPDX-License-Identifier: GPL-2.0
"""Recordings of jobs and segments."""
