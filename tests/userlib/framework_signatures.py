# SPDX-License-Identifier: GPL-2.0
"""Signatures of frameworks: those that were recorded, those that can be imported, and whether one accepts more."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from inspect import Parameter
from typing import Any

from framework_programs import FAKES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: By framework and name in it.
RECORDED: dict[str, dict[str, str]] = tomllib.loads((FAKES / "signatures.toml").read_text())

SHOW = """
import importlib, inspect, json, sys

def found(name):
    parts = name.split(".")
    thing = importlib.import_module(parts[0])
    for at, part in enumerate(parts[1:], 2):
        if not hasattr(thing, part):
            importlib.import_module(".".join(parts[:at]))
        thing = getattr(thing, part)
    return thing

def signature(name):
    try:
        given = inspect.signature(found(name))
    except ValueError:  # it is not written in Python
        return None
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in given.parameters.values()]
    return str(inspect.Signature(plain))

print(json.dumps({name: signature(name) for name in sys.argv[1:]}))
"""


def shown(names: list[str], path: str, first: str = "", **environment: str) -> dict[str, str | None]:
    """The signatures of what Python finds by these names in the folder ``path``; None: it has none that is known.

    ``first``: code that is executed first.
    """
    given = {**os.environ, "PYTHONPATH": path, **environment}
    command = [sys.executable, "-c", first + SHOW, *names]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _parameters(signature: str) -> list[Parameter]:
    made: Any = eval(f"lambda {signature[1:-1]}: None")
    return list(inspect.signature(made).parameters.values())


def beyond(stand_in: str, real: str) -> str:
    """Why a stand-in of that signature accepts a call that the real one refuses; empty: it accepts none."""
    ours, theirs = _parameters(stand_in), _parameters(real)
    kinds = {one.kind for one in theirs}
    named = {one.name for one in theirs if one.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)}
    in_order = [one.name for one in theirs if one.kind is Parameter.POSITIONAL_OR_KEYWORD]
    for at, one in enumerate(ours):
        if one.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            if one.kind not in kinds:
                return str(one)
        elif one.kind is Parameter.KEYWORD_ONLY:
            if one.name not in named and Parameter.VAR_KEYWORD not in kinds:
                return one.name
        elif one.name not in in_order[at : at + 1]:
            return f"{one.name} is not its parameter {at}"
    required = {one.name for one in ours if one.default is Parameter.empty}
    for one in theirs:
        many = one.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        if one.default is Parameter.empty and not many and one.name not in required:
            return f"{one.name} is required"
    return ""
