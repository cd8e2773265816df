"""The model's first choice at each place, through the door by which verl distils: a function of a pass's logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

FIRST = "first_choices"
"""What a pass returns next to its log-probabilities: nested [rows, n], each the likeliest token to come next."""
ASKED = {"distillation_use_topk": True, "compute_loss": True}
"""What makes verl call the function; as settings of the data."""


def choose_first(
    student_logits: Tensor | None = None, data: Any = None, model_output: Any = None, dp_group: Any = None
) -> dict[str, Tensor] | tuple[Tensor, dict[str, Any]]:
    """Return the first choices [1, tokens] from logits [1, tokens, vocabulary].

    verl calls it a second time for the loss of the pass, which is 0: nothing is trained.
    """
    if student_logits is not None:
        return {FIRST: student_logits.argmax(-1)}
    return model_output["log_probs"].values().new_zeros(()), {}
