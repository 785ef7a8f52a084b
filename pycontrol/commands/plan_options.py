# SPDX-License-Identifier: GPL-2.0
"""Options of the commands that divide a GPU among tasks."""

from __future__ import annotations

import click

from pycontrol.act.plan.division import INSIDE, MOST_UNITS
from pycontrol.commands.options import Output

ANY_INSIDE = click.option("--inside", type=click.Choice(INSIDE), default="fp", show_default=True,
                          help="The test inside a partition; fp is for policies segment and boosted, gcaps-* for "
                               "policy segment and CPUs that tasks share.")  # fmt: skip


UNITS = click.option("--units", type=click.IntRange(1, MOST_UNITS), metavar="NUMBER",
                     help="Compute units of the GPU, instead of the file's.")  # fmt: skip


SIZES = click.option("--sizes", metavar="LEAST:STEP|LIST",
                     help="Sizes that a partition may have, such as 8:8 or 4,8,16, instead of the file's.")  # fmt: skip


MOST = click.option("--max-partitions", "most", type=click.IntRange(1, MOST_UNITS), metavar="NUMBER",
                    help="How many partitions the mechanism offers.")  # fmt: skip


OUT = click.option("-o", "--output", type=Output(), metavar="OUT",
                   help="Write the taskset file with its partitions there, if all fits.")  # fmt: skip
