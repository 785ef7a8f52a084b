# SPDX-License-Identifier: GPL-2.0
"""Response-time analyses: the tests of the registry by name, and the verdicts that they return."""

from analysis.rta.audsley import Assignment
from analysis.rta.result import BestEffort, Bound, Failure, Reason, Result, Term, TermKind, Verdict
from analysis.rta.test import SUFFIX, Test

__all__ = [
    "SUFFIX",
    "Assignment",
    "BestEffort",
    "Bound",
    "Failure",
    "Reason",
    "Result",
    "Term",
    "TermKind",
    "Test",
    "Verdict",
]
