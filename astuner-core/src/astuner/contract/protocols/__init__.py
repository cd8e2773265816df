"""What each kind of component is, and in which process it runs.

A component is any object of the right shape; nothing has to be subclassed except `Workflow` and `Judge`, which are short
and carry defaults. A component class may have an attrs class `Options` as an attribute: its YAML section is structured into it
strictly, and it is passed as the only argument of the constructor. Without `Options` the constructor takes no argument.
A class that must know the run has a classmethod `from_run(options, run_info)`, which is called instead of the constructor
(`options` is None without `Options`).

What a component offers beyond that is its `traits`, one record for each kind (`astuner.contract.protocols.traits`).
A wire API is an object, `astuner.model.gateway.wire_apis.WireApi`: data and functions, since it has nothing to be made from.
"""

from __future__ import annotations

from astuner.contract.protocols.backbone import Backbone, BackboneTraits, OwnVenv, VenvState
from astuner.contract.protocols.candidate import Candidate
from astuner.contract.protocols.components import (
    Detector,
    Estimator,
    EstimatorTraits,
    Judge,
    JudgeTraits,
    Logger,
    LoggerTraits,
    Outcome,
    PlayedTask,
    Reader,
    ReaderTraits,
    Sampled,
    Sampler,
    Streams,
    TaskDraw,
)
from astuner.contract.protocols.engine import Engine, EngineAccess, EngineTraits, MakeEngine, Say, SettledValue, settle_sequences
from astuner.contract.protocols.losses import LossTraits, PolicyLoss, TrainedTokens
from astuner.contract.protocols.run import ComponentMaker, Control, EpisodeStore, RunInfo, TaskSource
from astuner.contract.protocols.sandbox import (
    MAX_OUTPUT_BYTES,
    CommandResult,
    KilledBy,
    Sandboxes,
    SandboxSession,
    SandboxSpec,
    SandboxTraits,
)
from astuner.contract.protocols.tracker import (
    ContextPolicy,
    ContextRoom,
    EpisodeIdentity,
    MakeTracker,
    Tracked,
    Tracker,
    TrackerTraits,
)
from astuner.contract.protocols.traits import has_methods, read_traits
from astuner.contract.protocols.warm_start import MOST_MISSES, Fit, Miss, TinyModelJob, WarmStartJob, WarmStartResult
from astuner.contract.protocols.workflow import (
    ChatModel,
    Environment,
    EnvironmentTraits,
    MakeEnvironment,
    Tuner,
    Workflow,
    WorkflowTraits,
)

__all__ = [
    "MAX_OUTPUT_BYTES",
    "MOST_MISSES",
    "Backbone",
    "BackboneTraits",
    "Candidate",
    "ChatModel",
    "CommandResult",
    "ComponentMaker",
    "ContextPolicy",
    "ContextRoom",
    "Control",
    "Detector",
    "Engine",
    "EngineAccess",
    "EngineTraits",
    "Environment",
    "EnvironmentTraits",
    "EpisodeIdentity",
    "EpisodeStore",
    "Estimator",
    "EstimatorTraits",
    "Fit",
    "Judge",
    "JudgeTraits",
    "KilledBy",
    "Logger",
    "LoggerTraits",
    "LossTraits",
    "MakeEngine",
    "MakeEnvironment",
    "MakeTracker",
    "Miss",
    "Outcome",
    "OwnVenv",
    "PlayedTask",
    "PolicyLoss",
    "Reader",
    "ReaderTraits",
    "RunInfo",
    "Sampled",
    "Sampler",
    "SandboxSession",
    "SandboxSpec",
    "SandboxTraits",
    "Sandboxes",
    "Say",
    "SettledValue",
    "Streams",
    "TaskDraw",
    "TaskSource",
    "TinyModelJob",
    "Tracked",
    "Tracker",
    "TrackerTraits",
    "TrainedTokens",
    "Tuner",
    "VenvState",
    "WarmStartJob",
    "WarmStartResult",
    "Workflow",
    "WorkflowTraits",
    "has_methods",
    "read_traits",
    "settle_sequences",
]
