"""What the choice of a tracker and its keys means for a run: reported, or refused, before anything is built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from astuner.contract.errors import Problem
from astuner.settings.config.places import ROOT, make_problem
from astuner.settings.config.sections import TRACKERS
from astuner.settings.planning.key_coverage import find_changed_keys, format_idle_keys
from astuner.settings.plugins.drivers import load_with_traits

if TYPE_CHECKING:
    from astuner.settings.config.components import ContextTracker
    from astuner.settings.config.loading import LoadedConfig
    from astuner.settings.plugins.component import Component

LEVEL = "context_tracker.timeline_merging_policy.timeline_compare_level"
FORCE = "context_tracker.timeline_merging_policy.force_inexact"
TIMELINE_KEYS = (LEVEL, FORCE, "context_tracker.timeline_merging_policy.ignore_tools", "context_tracker.detect_timeline_snap")
SUMMARY_KEYS = ("context_tracker.alien_llm_model", "context_tracker.alien_llm_response_length")


def find_inexact_keys(loaded: LoadedConfig) -> Iterator[Problem]:
    """Yield the problem of a training run whose samples would be inexact unless the user insists."""
    policy = loaded.config.context_tracker.timeline_merging_policy
    if _merges_text(loaded) and not policy.force_inexact:
        message = (
            "'text' trains tokens under other prefixes than they were sampled under, so their log-probabilities are wrong there. "
            f"Use 'token', or insist with {FORCE}: true."
        )
        yield make_problem(f"{ROOT}.{LEVEL}", message, loaded.locate)


def find_tracker_notices(loaded: LoadedConfig, tracker: Component | None) -> Iterator[str]:
    """Yield notices on keys that are inexact, or that have no effect in combination with others."""
    section, given = loaded.config.context_tracker, find_changed_keys(loaded)
    name = _get_name(section)
    workflow = loaded.config.rollout.use_agentscope_protocol
    if _merges_text(loaded):
        yield f"{LEVEL}: 'text' is inexact: answers are trained in later conversations that hold them, under another prefix."
    if workflow and tracker is not None and load_with_traits(tracker.candidate)[1].manages_context:
        yield (
            f"context_tracker.context_tracker_type: with a workflow, '{name}' only reads samples off its calls; what the model "
            "is shown is the workflow's to decide. A tracker decides where rollout.use_agentscope_protocol is false."
        )
    if name not in TRACKERS:
        return
    if name != "timeline":
        yield from format_idle_keys(TIMELINE_KEYS, given, f"the tracker '{name}' merges nothing")
    if workflow or not _summarises(section, name):
        yield from format_idle_keys(SUMMARY_KEYS, given, "nothing is summarised")
    if workflow:
        yield from format_idle_keys(
            ["context_tracker.max_env_len"], given, "a workflow plays the environment, and cuts what it likes"
        )


def _merges_text(loaded: LoadedConfig) -> bool:
    section = loaded.config.context_tracker
    return _get_name(section) == "timeline" and section.timeline_merging_policy.timeline_compare_level == "text"


def _summarises(section: ContextTracker, name: str) -> bool:
    return name == "auto_context" or (
        name == "sliding_window" and section.get_options(name).get("enable_llm_memory_extraction") is True
    )


def _get_name(section: ContextTracker) -> str:
    # `distribution/name` chooses between two plugins of one name.
    return section.context_tracker_type.removeprefix("astuner-core/")
