# SPDX-License-Identifier: GPL-2.0
"""A running host, whichever it is: its control plane, its events, its tracepoints."""
