# SPDX-License-Identifier: GPL-2.0
"""Times, powers and frequencies with units, converted without rounding: "0.5ms" is exactly 500000 ns."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from gpurt._gpurt import lib

#: Nanoseconds in a microsecond and in a millisecond.
US, MS = 1_000, 1_000_000
UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
#: `gpurt measure times` writes this for a value that nobody has measured; no time.
UNKNOWN_TIME = "?"
#: The longest time that parse_time() accepts, ns (146 years).
LONGEST_TIME_NS = 2**62
TIME_PATTERN = r"^\s*[0-9]{1,20}(\.[0-9]{1,20})?\s*(ns|us|ms|s)\s*$"
_TIME = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([a-z]*)\s*", re.ASCII | re.IGNORECASE)


def parse_time(text: str) -> int:
    """Nanoseconds of a time such as "5ms" or "0.25us".  Raises ValueError that says what is wrong."""
    found = _TIME.fullmatch(text)
    if text == UNKNOWN_TIME:
        raise ValueError('"?" is still to be replaced by a time such as "5ms"')
    if found is None:
        raise ValueError(f'expected a time such as "5ms" or "250us", got {text[:40]!r}')
    number, unit = str(found[1]), str(found[2])
    if not unit:
        raise ValueError(f'"{number}" has no unit; write "{number}ms" or another of ns, us, ms, s')
    if unit not in UNITS:
        raise ValueError(f'"{unit[:20]}" is not a unit of time; use ns, us, ms or s')
    whole, _, fraction = number.partition(".")
    power: int = 10 ** len(fraction)
    time, rest = divmod(int(whole + fraction) * UNITS[unit], power)
    if rest:
        raise ValueError(f'"{number}{unit}" is not a whole number of nanoseconds')
    if time > LONGEST_TIME_NS:
        raise ValueError(f'"{number}{unit}" is longer than the longest time, 2^62 ns')
    return time


#: Microwatts in each unit of power.
POWERS = {"uW": 1, "mW": 1_000, "W": 1_000_000}
POWER_PATTERN = r"^\s*[0-9]{1,20}(\.[0-9]{1,20})?\s*(uW|mW|W)\s*$"
_POWER = re.compile(r"\s*([0-9]{1,20})(?:\.([0-9]{1,20}))?\s*([A-Za-z]*)\s*", re.ASCII)


def parse_power(text: str) -> int:
    """Microwatts of a power such as "46W" or "445mW".  Raises ValueError that says what is wrong."""
    found = _POWER.fullmatch(text)
    if found is None:
        raise ValueError(f'expected a power such as "46W" or "445mW", got {text[:40]!r}')
    number, fraction, unit = found[1], found[2] or "", found[3]
    if not unit:
        raise ValueError(f'the power "{text.strip()}" has no unit; write "{text.strip()}W" or another of uW, mW, W')
    if unit not in POWERS:
        raise ValueError(f'"{unit[:20]}" is not a unit of power; use uW, mW or W')
    power, rest = divmod(int(number + fraction) * POWERS[unit], 10 ** len(fraction))
    if rest:
        raise ValueError(f"{text.strip()[:40]!r} is not a whole number of microwatts")
    return int(power)


#: Hertz in each unit of frequency.
FREQUENCIES = {"Hz": 1, "kHz": 1_000, "MHz": 1_000_000, "GHz": 1_000_000_000}
FREQUENCY_PATTERN = r"^\s*[0-9]{1,20}(\.[0-9]{1,20})?\s*(Hz|kHz|MHz|GHz)\s*$"
_FREQUENCY = re.compile(r"\s*([0-9]{1,20})(?:\.([0-9]{1,20}))?\s*([A-Za-z]*)\s*", re.ASCII)


def parse_frequency(text: str) -> int:
    """Hertz of a frequency such as "1300.5MHz" or "2.2GHz".  Raises ValueError that says what is wrong."""
    found = _FREQUENCY.fullmatch(text)
    if found is None or found[3] not in FREQUENCIES:
        raise ValueError(f'expected a frequency such as "1300.5MHz" or "2.2GHz", got {text[:40]!r}')
    number, fraction = found[1], found[2] or ""
    frequency, rest = divmod(int(number + fraction) * FREQUENCIES[found[3]], 10 ** len(fraction))
    if rest or not frequency:
        raise ValueError(f"{text.strip()[:40]!r} is not a whole number of hertz above 0")
    return int(frequency)


def format_frequency(hertz: int) -> str:
    """The frequency in megahertz, exact: 1300500000 is "1300.5MHz"."""
    return f"{(Decimal(hertz) / FREQUENCIES['MHz']).normalize():f}MHz"


def exact_ms(ns: int) -> str:
    """A time in milliseconds, not rounded: 1500000 is "1.5 ms"."""
    return f"{(Decimal(ns) / UNITS['ms']).normalize():f} ms"


def format_time(ns: int) -> str:
    """The shortest exact form with a unit: 500000 is "0.5ms", 1500 is "1.5us", 0 is "0ns"."""
    if ns == 0:
        return "0ns"
    forms = [f"{(Decimal(ns) / scale).normalize():f}{unit}" for unit, scale in UNITS.items()]
    return min(forms, key=lambda form: (len(form), "ms" not in form))


def thousandths(factor: Fraction) -> int:
    """A slow-down as virtual GPUs have it: rounded down, so that it is no more than what analyses count.

    Raises ValueError, which says what may be, for one below 1 or too large.
    """
    made = int(factor * lib.GPURT_FACTOR_ONE)
    if not lib.GPURT_FACTOR_ONE <= made <= lib.GPURT_FACTOR_MAX:
        most = lib.GPURT_FACTOR_MAX // lib.GPURT_FACTOR_ONE
        raise ValueError(f"is 1 to {most} on virtual GPUs, not {float(factor):g}")
    return made
