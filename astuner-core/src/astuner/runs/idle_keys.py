"""Keys that were set and that nothing of this run acts on, though other choices would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from astuner.config.model import Config
from astuner.config.structuring import make_converter
from astuner.config.trees import flatten

if TYPE_CHECKING:
    from astuner.config.loading import LoadedConfig
    from astuner.rollout.recipe import Component

JUDGE_LLM_KEYS = ("task_judge.alien_llm_model", "task_judge.alien_llm_response_length")


def changed_keys(loaded: LoadedConfig) -> frozenset[str]:
    """Return the keys that the user set to something else than the default."""
    values, defaults = flatten(loaded.resolved), flatten(make_converter().unstructure(Config()))
    return frozenset(key for key in loaded.user_keys if key in defaults and values.get(key) != defaults[key])


def idle(keys: Sequence[str], given: frozenset[str], why: str) -> Iterator[str]:
    """Yield one notice that names those of the keys that were given."""
    named = [key for key in keys if key in given]
    if named:
        yield f"{', '.join(named)} {'has' if len(named) == 1 else 'have'} no effect: {why}."


def judge_notices(loaded: LoadedConfig, judges: Sequence[Component]) -> Iterator[str]:
    """Yield what a user should know of the keys of an LLM that no judge asks.

    Judges say that they read them by a class attribute `honours`; of the user's own code that takes the run it is supposed.
    """
    from astuner.plugins.drivers import load

    for judge in judges:
        target = load(judge.candidate)
        own = judge.candidate.dist is None and hasattr(target, "from_run")
        if own or set(JUDGE_LLM_KEYS) & set(getattr(target, "honours", ())):
            return
    yield from idle(JUDGE_LLM_KEYS, changed_keys(loaded), "no judge of this run asks an LLM")
