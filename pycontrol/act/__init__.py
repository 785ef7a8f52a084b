# SPDX-License-Identifier: GPL-2.0
"""Changes hosts and starts programs."""
