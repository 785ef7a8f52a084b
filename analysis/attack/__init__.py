# SPDX-License-Identifier: GPL-2.0
"""Every schedule of a small system."""
