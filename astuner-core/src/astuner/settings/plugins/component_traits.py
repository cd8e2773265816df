"""The record of traits of each kind, and that a class keeps what its own says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from astuner.contract.errors import PluginError
from astuner.contract.protocols import (
    BackboneTraits,
    Candidate,
    EngineTraits,
    EnvironmentTraits,
    EstimatorTraits,
    JudgeTraits,
    LoggerTraits,
    ReaderTraits,
    SandboxTraits,
    TrackerTraits,
    WorkflowTraits,
)
from astuner.contract.protocols.traits import find_faults

TRAITS: Mapping[str, type[Any]] = {
    "backbone": BackboneTraits,
    "engine": EngineTraits,
    "environment": EnvironmentTraits,
    "estimator": EstimatorTraits,
    "judge": JudgeTraits,
    "logger": LoggerTraits,
    "reader": ReaderTraits,
    "sandbox": SandboxTraits,
    "tracker": TrackerTraits,
    "workflow": WorkflowTraits,
}
"""By kind; the others offer nothing beyond their Protocol."""


def check_traits(candidate: Candidate, target: object) -> None:
    """Raise `PluginError`, with the blame, if the class of a component contradicts its traits."""
    record = TRAITS.get(candidate.kind)
    if record is None or not isinstance(target, type):
        return
    if faults := list(find_faults(target, record, tuple(TRAITS.values()))):
        raise PluginError(f"{candidate.blame}: {'; '.join(faults)}")
