# SPDX-License-Identifier: GPL-2.0
"""The report: the evidence on a system as one page of HTML, made of the documents that commands print as JSON."""
