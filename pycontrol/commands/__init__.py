# SPDX-License-Identifier: GPL-2.0
"""The commands of the CLI, grouped by what they need; each parses, calls and prints."""
