"""The contract of each kind of component: rules for all of them, as tests that authors run."""

from __future__ import annotations

from collections.abc import Mapping

from astuner.testing.contracts.backbone import BackboneContract
from astuner.testing.contracts.base import Contract, Rules, self_contained
from astuner.testing.contracts.command import CommandContract
from astuner.testing.contracts.contract_run import Outcome, list_rules, run_contract
from astuner.testing.contracts.detector import DetectorContract
from astuner.testing.contracts.engine import EngineContract
from astuner.testing.contracts.environment import EnvironmentContract
from astuner.testing.contracts.estimator import EstimatorContract
from astuner.testing.contracts.hooks import HooksContract
from astuner.testing.contracts.judge import JudgeContract
from astuner.testing.contracts.logger import LoggerContract
from astuner.testing.contracts.package import PackageContract
from astuner.testing.contracts.reader import ReaderContract
from astuner.testing.contracts.sandbox import SandboxContract
from astuner.testing.contracts.tracker import TrackerContract

__all__ = [
    "CONTRACTS",
    "BackboneContract",
    "CommandContract",
    "Contract",
    "DetectorContract",
    "EngineContract",
    "EnvironmentContract",
    "EstimatorContract",
    "HooksContract",
    "JudgeContract",
    "LoggerContract",
    "Outcome",
    "PackageContract",
    "ReaderContract",
    "Rules",
    "SandboxContract",
    "TrackerContract",
    "list_rules",
    "run_contract",
    "self_contained",
]

CONTRACTS: Mapping[str, type[Contract]] = {
    contract.kind: contract
    for contract in (
        ReaderContract,
        JudgeContract,
        TrackerContract,
        EngineContract,
        LoggerContract,
        BackboneContract,
        EstimatorContract,
        EnvironmentContract,
        DetectorContract,
        SandboxContract,
        HooksContract,
        CommandContract,
    )
}
"""By kind, as in `astuner.plugins.kinds`; the contract of packages has no kind."""
