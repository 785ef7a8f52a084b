# SPDX-License-Identifier: GPL-2.0
"""The search for schedules that break a bound."""
