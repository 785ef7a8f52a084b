# SPDX-License-Identifier: GPL-2.0
"""The simulator, which runs the scheduler that ships in virtual time."""
