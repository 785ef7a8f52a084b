# SPDX-License-Identifier: GPL-2.0
"""Plans that are made and applied."""
