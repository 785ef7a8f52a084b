# SPDX-License-Identifier: GPL-2.0
"""What the commands of `gpurt experiment` share: the name of any test."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.papers import registry
from analysis.rta import Test
from pycontrol.commands.options import TestName


class AnyTestName(TestName):
    """The name of a test, also of one that only a paper has."""

    def tests(self) -> Mapping[str, Test]:
        """The tests of a GPU that tasks share."""
        return registry.TESTS
