"""In what Tinker-compatible servers differ without a word."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen
from attrs.validators import ge, in_, optional


@frozen(kw_only=True)
class Behaviour:
    """What a server does with what it is asked; the defaults are what the hosted service documents."""

    within: Literal["sum", "tokens", "rows"] = field(default="sum", validator=in_(("sum", "tokens", "rows")))
    """How a call reduces the weighted losses of its tokens: to their sum, to that divided by the sum of the call's weights, or to
    the mean over rows of each row's mean."""
    across: Literal["adds", "averages"] = field(default="adds", validator=in_(("adds", "averages")))
    """What several calls before one optimizer step are: their sum, or one mean over the weights or rows of all of them."""
    rows_per_chunk: int | None = field(default=None, validator=optional(ge(1)))
    """A call of more rows is reduced as several calls, as the SDK cuts it; None never cuts."""
    weights: Literal["honoured", "refused"] = field(default="honoured", validator=in_(("honoured", "refused")))
    """Whether the losses of reinforcement learning accept `weights`. Without them every target counts 1, the prompt's too."""
    honours_grad_clip: bool = True
    accepts_zero_lr: bool = True
    reports_loss: bool = True
    """Whether the metrics of `forward_backward` have `loss:sum`."""
    gradient_norm: str | None = None
    """The metric of `optim_step` that has the gradient's norm before it is clipped, if there is one."""
    logprobs: Literal["temperature_1", "sampled"] = field(default="temperature_1", validator=in_(("temperature_1", "sampled")))
    """Which distribution the log-probabilities of samples belong to: the model's own, or the scaled and filtered one."""
    leading_none: bool = True
    """Whether the log-probabilities of a prompt have a None for its first token, or one value less than it has tokens."""
    greedy_at_one: bool = False
    """Whether temperature 1, top_p 1 and a single sample are greedy."""
    default_top_k: int = 0
    """How many tokens are sampled from where `top_k` is -1; 0 for all."""
    ignores_stop_ids: bool = False
    stops_at_eos: bool = True
    """Whether an answer ends at the model's EOS when no `stop` is given."""
    live_snapshots: bool = False
    """Whether a sampling client samples from what its training client has become."""
    samples_base: bool = True
    """Whether the base model can be sampled from."""
    exact_resume: bool = True
    """Whether the optimizer's moments are saved as they are, or rounded to bfloat16."""
    overwrites: bool = False
    """Whether a name that exists is written over unasked."""
    loads_in_place: bool = True
    """Whether a training client that has been used can load a state."""
    downloads: bool = True
    names_models: bool = True
    """Whether the server's capabilities have the names of its models."""

    def __attrs_post_init__(self) -> None:
        if (self.within, self.across) == ("sum", "averages"):
            raise ValueError("across='averages' is a mean over tokens or rows: within must be 'tokens' or 'rows'")

    @classmethod
    def hatchery(cls) -> Behaviour:
        """Return what hatchery-core 0.3.0 does."""
        return cls(
            within="tokens",
            accepts_zero_lr=False,
            logprobs="sampled",
            greedy_at_one=True,
            default_top_k=50,
            ignores_stop_ids=True,
            live_snapshots=True,
            samples_base=False,
            exact_resume=False,
            overwrites=True,
            downloads=False,
            names_models=False,
        )

    @classmethod
    def skyrl(cls) -> Behaviour:
        """Return what SkyRL 0.4.0 does on its jax backend."""
        return cls(
            within="rows",
            across="averages",
            honours_grad_clip=False,
            reports_loss=False,
            gradient_norm="skyrl.ai/grad_norm",
            leading_none=False,
            stops_at_eos=False,
            loads_in_place=False,
        )
