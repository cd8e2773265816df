"""The key `rollout.auxiliary_models`: the models besides the trained one that AgentScope functions are given by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import field, frozen
from attrs.validators import and_, ge, gt, le, optional

MAIN_AGENT = "agent"
"""The name of the trained agent of a workflow function."""


@frozen(kw_only=True)
class AuxiliaryModel:
    """One model: behind an OpenAI-compatible API, or the model in training as a frozen agent, if there is no `base_url`."""

    base_url: str | None = None
    """The API, with its version, as in `http://127.0.0.1:8000/v1`. Null is the model in training, over the run's own gateway: its
    calls are recorded under the name of this entry, and not trained."""
    model: str | None = None
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


def find_faults(models: Mapping[str, AuxiliaryModel], environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the key below `auxiliary_models`, and what is wrong with it, for each entry that cannot be used."""
    for name, chosen in models.items():
        if chosen.base_url is None and chosen.model is not None:
            message = (
                f"the model {chosen.model!r} has no API. Set base_url to its address; without both keys, the entry is the model "
                "in training, as a frozen agent."
            )
            yield f"{name}.model", message
        elif chosen.base_url is not None and not chosen.base_url.startswith(("http://", "https://")):
            yield f"{name}.base_url", f"{chosen.base_url!r} is not an address such as https://api.example.com/v1."
        elif chosen.base_url is not None and not chosen.model:
            yield f"{name}.model", f"this key is required: the name of the model at {chosen.base_url}."
        elif chosen.is_frozen_target and name == MAIN_AGENT:
            yield name, f"the trained agent is called {MAIN_AGENT!r}. Give the entry another name, or a base_url."
        if chosen.api_key_env is not None and chosen.base_url is not None and not environ.get(chosen.api_key_env):
            message = (
                f"the environment variable {chosen.api_key_env} is not set. Set it (an .env file next to the YAML is read too), "
                "or remove this key if the API needs none."
            )
            yield f"{name}.api_key_env", message
