# SPDX-License-Identifier: GPL-2.0
"""Metrics in Prometheus's protocol buffers, the one format in which its releases read native histograms.

The output is delimited messages io.prometheus.client.MetricFamily (io/prometheus/client/metrics.proto of
github.com/prometheus/client_model).  The wire format is that of protobuf.dev/programming-guides/encoding: a key is the
number of a field and the type of its value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from pycontrol.live.distributions import SCHEMA, Distributions, Native

#: The content type that is asked for, and answered.
CONTENT_TYPE = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
#: Wire types.
_VARINT, _DOUBLE, _BYTES = 0, 1, 2
#: The number of each kind of metric in enum MetricType, and the field of Metric that has the value.
_KINDS = {"counter": (0, 3), "gauge": (1, 2), "info": (1, 2), "histogram": (4, 7)}
#: The ends of families' names in this format: a family has the name of its samples.
_SUFFIXES = {"counter": "_total", "info": "_info"}
#: Values of at most this are zero: the least bound that every schema has, as Prometheus's own library has it.
ZERO = 2.0**-128


def encode(families: Iterable[Metric]) -> bytes:
    """All families that have samples."""
    return b"".join(_sized(_family(one)) for one in families if one.samples)


def _family(metric: Metric) -> bytes:
    kind, field = _KINDS[metric.type]
    found = _text(1, metric.name + _SUFFIXES.get(metric.type, "")) + _text(2, metric.documentation) + _number(3, kind)
    values = _histograms(metric) if metric.type == "histogram" else _plain(metric)
    for labels, value in values:
        pairs = b"".join(_bytes(1, _text(1, name) + _text(2, text)) for name, text in sorted(labels))
        found += _bytes(4, pairs + _bytes(field, value))
    return found


_Labels = frozenset[tuple[str, str]]


def _plain(metric: Metric) -> Iterator[tuple[_Labels, bytes]]:
    """Counters and gauges: the value is their first field."""
    for sample in metric.samples:
        yield frozenset(sample.labels.items()), _double(1, sample.value)


def _histograms(metric: Metric) -> Iterator[tuple[_Labels, bytes]]:
    """Classic histograms, with the native ones of the same labels."""
    groups: dict[_Labels, list[Sample]] = {}
    for sample in metric.samples:
        labels = frozenset(pair for pair in sample.labels.items() if pair[0] != "le")
        groups.setdefault(labels, []).append(sample)
    native = metric.native if isinstance(metric, Distributions) else {}
    for labels, samples in groups.items():
        found = b"".join(_part(sample, sample.name.removeprefix(metric.name)) for sample in samples)
        yield labels, found + (_native(native[labels]) if labels in native else b"")


def _part(sample: Sample, suffix: str) -> bytes:
    """The part of a classic histogram's message that a sample is."""
    if suffix == "_bucket":
        return _bytes(3, _number(1, int(sample.value)) + _double(2, float(sample.labels["le"])))
    if suffix == "_created":
        seconds, rest = divmod(sample.value, 1)
        return _bytes(15, _number(1, int(seconds)) + _number(2, int(rest * 1e9)))
    return _number(1, int(sample.value)) if suffix == "_count" else _double(2, sample.value)


def _native(native: Native) -> bytes:
    """Runs of buckets that follow each other, each with its distance from the one before, and differences of counts."""
    found = _number(5, _zigzag(SCHEMA)) + _double(6, ZERO) + _number(7, native.zero)
    runs: list[list[int]] = []
    for index in sorted(native.buckets):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    after = count = 0
    deltas = b""
    for run in runs:
        found += _bytes(12, _number(1, _zigzag(run[0] - after)) + _number(2, len(run)))
        after = run[-1] + 1
        for index in run:
            deltas += _number(13, _zigzag(native.buckets[index] - count))
            count = native.buckets[index]
    return found + deltas


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; all bytes but the last have the highest bit."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _zigzag(value: int) -> int:
    """A signed number as an unsigned one: 0, -1, 1, -2 as 0, 1, 2, 3."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | _DOUBLE) + struct.pack("<d", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _sized(value)


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


def _sized(value: bytes) -> bytes:
    return _varint(len(value)) + value
