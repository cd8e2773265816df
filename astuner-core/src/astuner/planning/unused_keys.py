"""Keys that were set but that this run does not act on, though other choices would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from astuner.config.model import Config
from astuner.config.structuring import make_converter
from astuner.config.trees import flatten
from astuner.protocols.optional import Honours, MadeFromRun, find_offer

if TYPE_CHECKING:
    from astuner.config.loading import LoadedConfig
    from astuner.plugins.component import Component

JUDGE_LLM_KEYS = ("task_judge.alien_llm_model", "task_judge.alien_llm_response_length")


def find_changed_keys(loaded: LoadedConfig) -> frozenset[str]:
    """Return the keys that the user changed from the default."""
    values, defaults = flatten(loaded.resolved), flatten(make_converter().unstructure(Config()))
    return frozenset(key for key in loaded.user_keys if key in defaults and values.get(key) != defaults[key])


def format_idle_keys(keys: Sequence[str], given: frozenset[str], why: str) -> Iterator[str]:
    """Yield one notice naming the given keys among them."""
    named = [key for key in keys if key in given]
    if named:
        yield f"{', '.join(named)} {'has' if len(named) == 1 else 'have'} no effect: {why}."


def find_judge_notices(loaded: LoadedConfig, judges: Sequence[Component]) -> Iterator[str]:
    """Yield notices on the keys of an LLM that no judge asks.

    Judges list the keys that they read in the class attribute `honours`; the user's own code with `from_run` may read them.
    """
    from astuner.plugins.drivers import load

    honoured: set[str] = set()
    for judge in judges:
        target = load(judge.candidate)
        if judge.candidate.dist is None and find_offer(target, MadeFromRun) is not None:
            honoured |= set(JUDGE_LLM_KEYS)
        if (honouring := find_offer(target, Honours)) is not None:
            honoured |= set(honouring.honours)
    left = [key for key in JUDGE_LLM_KEYS if key not in honoured]
    yield from format_idle_keys(left, find_changed_keys(loaded), "no judge of this run reads it")
