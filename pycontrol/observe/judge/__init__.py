# SPDX-License-Identifier: GPL-2.0
"""What was observed, judged by a file."""
