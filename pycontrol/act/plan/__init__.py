# SPDX-License-Identifier: GPL-2.0
"""Makes plans and applies them."""
