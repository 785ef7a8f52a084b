# SPDX-License-Identifier: GPL-2.0
"""sBEET and sBEET-mg: the authors' profiles, their generator of tasksets, and the statistics of their figures."""
