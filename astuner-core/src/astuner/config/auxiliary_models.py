"""The key `rollout.auxiliary_models`: the models besides the trained one that AgentScope functions are given by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import Attribute, field, frozen
from attrs.validators import and_, ge, gt, le, optional

MAIN_AGENT = "agent"
"""The name of the trained agent of a workflow function."""


def _check_address(_: Any, attribute: Attribute[Any], value: str | None) -> None:
    if value is not None and not value.startswith(("http://", "https://")):
        raise ValueError(f"'{attribute.name}' must be an address such as https://api.example.com/v1: {value!r}")


def _check_model(instance: AuxiliaryModel, _: Attribute[Any], value: str | None) -> None:
    if value is None and instance.base_url is not None:
        raise ValueError(f"'model' is required: the name of the model at {instance.base_url}")
    if value is not None and instance.base_url is None:
        raise ValueError(
            f"'model' is {value!r} and 'base_url' is missing. Add the address of its API; without both, this is the model in "
            "training, as a frozen agent"
        )


@frozen(kw_only=True)
class AuxiliaryModel:
    """One model: behind an OpenAI-compatible API, or the model in training as a frozen agent, if there is no `base_url`."""

    base_url: str | None = field(default=None, validator=_check_address)
    """The API, with its version, as in `http://127.0.0.1:8000/v1`. Null is the model in training, over the run's own gateway: its
    calls are recorded under the name of this entry, and not trained."""
    model: str | None = field(default=None, validator=_check_model)
    """Its name there; required with `base_url`."""
    api_key_env: str | None = None
    """The environment variable that holds the key. By default `OPENAI_API_KEY`, and no key if that is not set."""
    temperature: float | None = field(default=None, validator=optional(ge(0)))
    """By default that of the API; with the model in training, `rollout.temperature`."""
    top_p: float | None = field(default=None, validator=optional(and_(gt(0), le(1))))
    max_tokens: int | None = field(default=None, validator=optional(ge(1)))
    """Most tokens of one answer."""
    context_size: int | None = field(default=None, validator=optional(ge(1)))
    """Most tokens of its context, for AgentScope 2, which compresses what would be longer."""

    @property
    def is_frozen_target(self) -> bool:
        """Whether it is the model in training."""
        return self.base_url is None


def check_auxiliary_models(_: Any, attribute: Attribute[Any], value: Mapping[str, AuxiliaryModel]) -> None:
    """Refuse a name that the trained agent has."""
    if MAIN_AGENT in value and value[MAIN_AGENT].is_frozen_target:
        raise ValueError(
            f"'{attribute.name}' has an entry '{MAIN_AGENT}' without 'base_url', and the trained agent has this name; give the "
            "entry another one"
        )
