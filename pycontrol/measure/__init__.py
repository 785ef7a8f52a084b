# SPDX-License-Identifier: GPL-2.0
"""Times, energy and boards that are measured."""
