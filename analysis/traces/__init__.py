# SPDX-License-Identifier: GPL-2.0
"""Traces of schedules: what ran when, as a file and as a picture."""
