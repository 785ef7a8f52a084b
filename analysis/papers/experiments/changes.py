# SPDX-License-Identifier: GPL-2.0
"""A published experiment with other parameters: `gpurt experiment run NAME --set cpus=8 --set epsilon=0.5ms`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from analysis.papers.experiments.generate import PAPER, PLATFORM, Parameters
from analysis.papers.experiments.schedulability import Schedulability
from gpurt.types import Document
from gpurt.units import parse_time

#: The costs of updates and switches, beside the fields of Parameters.
COSTS = ("epsilon", "theta")
#: What may be changed.
CHANGE_KEYS = (*(one.name for one in fields(Parameters) if one.name != "overlap"), *COSTS)


def changed_experiment(experiment: Schedulability, changes: Sequence[str]) -> Schedulability:
    """The experiment with each KEY=VALUE, which its name and its title say.

    A range is LOW..HIGH, or one value for both.  Raises ValueError for a wrong value, and for a key that is unknown or
    that the experiment varies or does not use.
    """
    given = dict(map(_split, changes))
    made = experiment
    for key, text in given.items():
        if key not in COSTS:
            made = replace(made, panels=tuple(
                replace(panel, points=tuple((x, _point(experiment, key, text, point)) for x, point in panel.points))
                for panel in made.panels
            ))  # fmt: skip
    if any(key in COSTS for key in given):
        theta = _time("theta", given["theta"]) if "theta" in given else PLATFORM.theta
        epsilon = _time("epsilon", given["epsilon"]) if "epsilon" in given else PLATFORM.alpha + theta
        if epsilon < theta:
            raise ValueError("epsilon contains theta, and cannot be less")
        costs = epsilon - theta, theta
        made = replace(made, curves=tuple(one if one.free or one.missing else replace(one, costs=costs)
                                          for one in made.curves))  # fmt: skip
    said = [f"{key}={text}" for key, text in given.items()]
    return replace(made, name="+".join([made.name, *said]), title=f"{made.title}, with {', '.join(said)}", claim="")


def _split(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if key not in CHANGE_KEYS or not equals or not value or "/" in value:
        raise ValueError(f"expected KEY=VALUE with one of {', '.join(CHANGE_KEYS)}, got {text[:40]!r}")
    return key, value


def _point(experiment: Schedulability, key: str, text: str, point: object) -> Parameters:
    if not isinstance(point, Parameters):
        raise ValueError(f"{experiment.name} draws its tasksets by another recipe, which has no {key}")
    every = {getattr(one, key) for panel in experiment.panels for _, one in panel.points}
    if len(every) > 1:
        raise ValueError(f"{experiment.name} varies {key}")
    value: Document = {key: _value(key, text)}
    return replace(point, **value)


def _value(key: str, text: str) -> int | float | bool | tuple[float, ...]:
    before = getattr(PAPER, key)
    kind = type(before[0] if isinstance(before, tuple) else before)
    try:
        if kind is bool:
            return {"true": True, "false": False}[text]
        if not isinstance(before, tuple):
            return float(text) if kind is float else int(text)
        low, _, high = text.partition("..")
        read = parse_time if key == "period" else float if kind is float else int
        return tuple(read(part) for part in (low, high or low))
    except (KeyError, ValueError):
        raise ValueError(f"{key}: {text!r} is no value for it; it is {before} in the papers") from None


def _time(key: str, text: str) -> int:
    try:
        return parse_time(text)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
