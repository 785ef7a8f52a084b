# SPDX-License-Identifier: GPL-2.0
"""The answer about a whole system, for every command: why it is no, what system would hold, and what would help."""
