"""The training loop shared by backbones that have none from their trainer: play, compute advantages, update, validate, save."""

from typing import TYPE_CHECKING

from astuner.shared.lazy_names import import_on_use

if TYPE_CHECKING:
    from astuner.runs.training.adapters import check_whole_model
    from astuner.runs.training.export import export_model, read_dtype
    from astuner.runs.training.keys import ENTROPY_TARGET_HONOURS, LOOP_HONOURS, LOSS_HONOURS
    from astuner.runs.training.losses import (
        Correction,
        KlType,
        LossOptions,
        PpoClip,
        TokenStreams,
        TokenTerms,
        divergence,
        stack_token_values,
        token_terms,
    )
    from astuner.runs.training.minibatches import Aggregation, compute_token_shares, cut_mini_batches
    from astuner.runs.training.mismatch import MismatchWatch
    from astuner.runs.training.schedule import compute_learning_rate

__all__ = [
    "ENTROPY_TARGET_HONOURS",
    "LOOP_HONOURS",
    "LOSS_HONOURS",
    "Aggregation",
    "Correction",
    "KlType",
    "LossOptions",
    "MismatchWatch",
    "PpoClip",
    "TokenStreams",
    "TokenTerms",
    "check_whole_model",
    "compute_learning_rate",
    "compute_token_shares",
    "cut_mini_batches",
    "divergence",
    "export_model",
    "read_dtype",
    "stack_token_values",
    "token_terms",
]

# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:
    __getattr__ = import_on_use(__name__, __file__)
