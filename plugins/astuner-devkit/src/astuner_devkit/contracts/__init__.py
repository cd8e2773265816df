"""The contract of each kind of component: rules for all of them, as tests that authors run."""

from __future__ import annotations

from collections.abc import Mapping

from astuner_devkit.contracts.backbone import BackboneContract
from astuner_devkit.contracts.base import Contract, Rules, self_contained
from astuner_devkit.contracts.command import CommandContract
from astuner_devkit.contracts.contract_run import Outcome, list_rules, run_contract
from astuner_devkit.contracts.detector import DetectorContract
from astuner_devkit.contracts.engine import EngineContract
from astuner_devkit.contracts.environment import EnvironmentContract
from astuner_devkit.contracts.estimator import EstimatorContract
from astuner_devkit.contracts.hooks import HooksContract
from astuner_devkit.contracts.judge import JudgeContract
from astuner_devkit.contracts.logger import LoggerContract
from astuner_devkit.contracts.loss import LossContract
from astuner_devkit.contracts.package import PackageContract
from astuner_devkit.contracts.reader import ReaderContract
from astuner_devkit.contracts.sampler import SamplerContract
from astuner_devkit.contracts.sandbox import SandboxContract
from astuner_devkit.contracts.tracker import TrackerContract
from astuner_devkit.contracts.wire_api import WireApiContract

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
    "LossContract",
    "Outcome",
    "PackageContract",
    "ReaderContract",
    "Rules",
    "SamplerContract",
    "SandboxContract",
    "TrackerContract",
    "WireApiContract",
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
        LossContract,
        SamplerContract,
        EnvironmentContract,
        DetectorContract,
        SandboxContract,
        WireApiContract,
        HooksContract,
        CommandContract,
    )
}
"""By kind, as in `astuner.settings.plugins.kinds`; the contract of packages has no kind."""
