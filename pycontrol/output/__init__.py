# SPDX-License-Identifier: GPL-2.0
"""The output of commands (docs/output.md): tables and lines for people, documents for programs."""
