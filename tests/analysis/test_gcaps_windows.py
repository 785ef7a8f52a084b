"""The prototype behind docs/readings/gcaps.md, "Windows": it says what the page says of it, on few tasksets."""

from __future__ import annotations

from dataclasses import replace

from gcaps_windows import GIVEN, WINDOWS, accepted

from analysis.papers.experiments.generate import PAPER, generate


def test_windows_gain_little() -> None:
    """One more at a load of 0.3 and epsilon 0.3 ms; the prototype itself asserts that no taskset is lost."""
    given, windows = accepted(300, 0.3, 50)
    assert given <= windows <= given + 3


def test_some_bounds_are_smaller() -> None:
    """Else the prototype would be the test itself."""
    systems = generate(replace(PAPER, load=(0.3, 0.3)), 1, 10)
    pairs = [(GIVEN.run(system), WINDOWS.run(system), system) for system in systems]
    found = [(given.wcrt(t.name), windows.wcrt(t.name)) for given, windows, system in pairs for t in system]
    assert all(windows is not None and windows <= given for given, windows in found if given is not None)
    assert any(given != windows for given, windows in found)
