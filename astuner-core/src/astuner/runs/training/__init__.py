"""The training loop shared by backbones that have none from their trainer: play, compute advantages, update, validate, save."""

from typing import TYPE_CHECKING

from astuner.shared.lazy_names import import_on_use

if TYPE_CHECKING:
    from astuner.runs.training.adapters import check_whole_model as check_whole_model
    from astuner.runs.training.export import export_model as export_model
    from astuner.runs.training.export import read_dtype as read_dtype
    from astuner.runs.training.keys import ENTROPY_TARGET_HONOURS as ENTROPY_TARGET_HONOURS
    from astuner.runs.training.keys import LOOP_HONOURS as LOOP_HONOURS
    from astuner.runs.training.keys import LOSS_HONOURS as LOSS_HONOURS
    from astuner.runs.training.losses import Correction as Correction
    from astuner.runs.training.losses import KlType as KlType
    from astuner.runs.training.losses import LossOptions as LossOptions
    from astuner.runs.training.losses import PpoClip as PpoClip
    from astuner.runs.training.losses import TokenStreams as TokenStreams
    from astuner.runs.training.losses import TokenTerms as TokenTerms
    from astuner.runs.training.losses import divergence as divergence
    from astuner.runs.training.losses import stack_token_values as stack_token_values
    from astuner.runs.training.losses import token_terms as token_terms
    from astuner.runs.training.minibatches import Aggregation as Aggregation
    from astuner.runs.training.minibatches import compute_token_shares as compute_token_shares
    from astuner.runs.training.minibatches import cut_mini_batches as cut_mini_batches
    from astuner.runs.training.mismatch import MismatchWatch as MismatchWatch
    from astuner.runs.training.schedule import compute_learning_rate as compute_learning_rate

# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:
    __getattr__ = import_on_use(__name__, __file__)
