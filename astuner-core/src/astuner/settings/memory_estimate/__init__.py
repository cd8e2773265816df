"""What a run holds in memory, computed from the shape of its model before anything is loaded."""

from astuner.settings.memory_estimate.engine_share import EngineShare, plan_engine_share
from astuner.settings.memory_estimate.model_file import find_longest_context, read_model_config
from astuner.settings.memory_estimate.model_shape import LINEAR, ModelShape
from astuner.settings.memory_estimate.parts import GIB, MAIN_MEMORY, PHASES, MemoryPart, MemoryPlan, MemoryQuestion, Phase
from astuner.settings.memory_estimate.sharded_trainer import ShardedTrainer, plan_sharded_trainer

__all__ = [
    "GIB",
    "LINEAR",
    "MAIN_MEMORY",
    "PHASES",
    "EngineShare",
    "MemoryPart",
    "MemoryPlan",
    "MemoryQuestion",
    "ModelShape",
    "Phase",
    "ShardedTrainer",
    "find_longest_context",
    "plan_engine_share",
    "plan_sharded_trainer",
    "read_model_config",
]
