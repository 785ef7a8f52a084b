# SPDX-License-Identifier: GPL-2.0
"""What commands print (docs/output.md): tables and lines for people, documents for programs."""
