# SPDX-License-Identifier: GPL-2.0
"""What gpurt says of a whole system, for every command: why not, where it would hold, and what would help."""
