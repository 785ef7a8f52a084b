# SPDX-License-Identifier: GPL-2.0
"""What changes a host or starts programs."""
