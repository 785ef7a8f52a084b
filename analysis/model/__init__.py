# SPDX-License-Identifier: GPL-2.0
"""The system model that every analysis, simulation and file of gpurt shares.

Terms are those of GCAPS (ECRTS'24, section 4).  All times are integer nanoseconds; every class is
immutable, so that a bound can be kept together with its taskset.
"""

from analysis.model.kernel import Kernel, Span
from analysis.model.partition import Partition, Sharing
from analysis.model.platform import Platform
from analysis.model.policy import DEFAULT_POLICY, FEDERATED, POLICIES, PolicyFacts
from analysis.model.relations import Assumed, Chain, Fork, Protocol, Resource, Section
from analysis.model.task import Copy, CpuSegment, GpuSegment, Intensity, Segment, Task, Waiting
from analysis.model.taskset import Taskset
from gpurt.units import MS, US

__all__ = [
    "DEFAULT_POLICY", "FEDERATED", "MS", "POLICIES", "US", "Assumed", "Chain", "Copy", "CpuSegment", "Fork",
    "GpuSegment", "Intensity", "Kernel", "Partition", "Platform", "PolicyFacts", "Protocol", "Resource", "Section",
    "Segment", "Sharing", "Span", "Task", "Taskset", "Waiting",
]  # fmt: skip
