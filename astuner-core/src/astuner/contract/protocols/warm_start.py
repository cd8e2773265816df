"""Training on demonstrations: what a backbone gets, and what it measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from astuner.contract.schema import Sample


@frozen(kw_only=True, eq=False)
class WarmStartJob:
    """What to train on, and how. A row is one sample of a demonstration; its trained tokens are the assistant's."""

    model: Path | str
    """The model to begin with: a directory, or a Hugging Face id."""
    out: Path
    """An empty directory for the trained model, in transformers' format."""
    train: Sequence[Sample]
    held_out: Sequence[Sample]
    """Never trained, only measured; may be empty."""
    epochs: int
    batch_size: int
    """The most rows of an optimizer step."""
    lr: float
    """The highest rate; it rises for the first tenth of the steps, and falls to 0 by the last."""
    seed: int
    """Decides the order of the rows."""


MOST_MISSES = 1000


@frozen
class Miss:
    """A trained token that is not the model's first choice."""

    sample: int
    """Which of the measured samples has it."""
    place: int
    """Where it is in the `ids` of the sample."""
    chosen: int
    """The id that the model would choose."""


@frozen(kw_only=True)
class Fit:
    """How well a model predicts the trained tokens of some samples."""

    loss: float
    """The mean cross entropy of a token, in nats."""
    accuracy: float
    """The share of tokens that are the model's first choice."""
    tokens: int
    misses: Sequence[Miss] = ()
    """Those that are not its first choice, `MOST_MISSES` at most; where they are unknown there are none."""


@frozen(kw_only=True)
class WarmStartResult:
    """The fit before and after training, by `trained` and, if there were any, `held out`."""

    before: Mapping[str, Fit]
    after: Mapping[str, Fit]
    steps: int
    merge_first: bool = False
    """Whether the backbone has written adapters, and begins a run only with these merged into their base."""


@frozen(kw_only=True, eq=False)
class TinyModelJob:
    """A new tiny model with random weights, and a tokenizer for its task."""

    out: Path
    """An existing directory, for the files of the model."""
    texts: Sequence[str]
    """What the tokenizer is trained on."""
    context: int
    """The most tokens of a conversation."""
    seed: int
