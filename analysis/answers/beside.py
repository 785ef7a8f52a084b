# SPDX-License-Identifier: GPL-2.0
"""Facts beside a no, for every command: what system would hold, which tasks miss a deadline, what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.answers.elsewhere import Elsewhere, named_elsewhere, of_policies
from analysis.answers.verdict import proved, unlike_the_file
from analysis.model import Taskset
from analysis.rta import Result, Test
from gpurt.types import Document

#: The most tasks of a file for which facts are searched beside the answer itself.
MAX_TASKS_BESIDE = 500


@dataclass(frozen=True, slots=True)
class Beside:
    """``misses``: tasks that miss a deadline in a simulated schedule.  Beside a yes, all fields are empty."""

    would_hold: Sequence[Elsewhere] = ()
    misses: Sequence[str] = ()
    helps: Sequence[str] = ()

    def data(self) -> Document:
        """The keys of every document that answers no about a file."""
        return {
            "would_hold": [{"test": one.test, "under": one.system, "cure": one.cure or None}
                           for one in self.would_hold],
            "simulated_misses": list(self.misses), "helps": list(self.helps),
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """The lines of the same facts, for people."""
        if self.misses:
            yield f"{', '.join(self.misses)}: misses a deadline in a simulated schedule (gpurt simulate)"
        for one in self.would_hold:
            yield f"would hold under {one.system}: {one.cure or 'no file can say so'}"
        for text in self.helps:
            yield f"what would help: {text}"


def beside(
    taskset: Taskset, why: str, results: Sequence[tuple[Test, Result]], by_name: bool, command: str
) -> Beside:  # fmt: skip
    """The facts that are known beside a no about the taskset; none if ``why`` is empty.

    ``results``: of the tests that the user named (``by_name``), or of the test on which the verdict rests.
    ``command``: the command that answers no; it does not name itself as help.
    """
    if not why:
        return Beside()
    if len(taskset) > MAX_TASKS_BESIDE:
        return Beside(helps=[f"fewer tasks in the file: up to {MAX_TASKS_BESIDE} gpurt also looks for what would help"])
    from analysis.answers import no  # imports the simulator and the searches, which a yes does not need

    others = (
        named_elsewhere(results, taskset)[1] if by_name else list(of_policies(taskset)) if taskset.real_time else []
    )
    for test, result in results:
        if not proved(test, taskset) and test.sound and not unlike_the_file(test, taskset):
            helps = [one for one in no.helps(test, taskset, result) if not one.startswith(f"gpurt {command}")]
            return Beside(others, no.missed(taskset, result), helps)
    return Beside(others)
