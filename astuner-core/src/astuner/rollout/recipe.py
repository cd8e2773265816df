"""How a rollout process makes its parts: names and options, picklable, nothing alive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.protocols import Judge, MakeTracker, RunInfo, Workflow
from astuner.rollout.judging import WeightedJudge, combine
from astuner.rollout.workflows import load_workflow

if TYPE_CHECKING:
    from astuner.plugins.catalog import Candidate
    from astuner.plugins.hooks import Hooks


@frozen(kw_only=True)
class Component:
    """A chosen component and its options, already structured."""

    candidate: Candidate
    options: Any = None
    weight: float = 1.0
    """Of a judge among several."""


@frozen(kw_only=True)
class Parts:
    """What the episode runner works with, alive."""

    make_workflow: Callable[[], Workflow]
    trainable_targets: tuple[str, ...] | None
    judge: Judge | None
    """None: the workflow gives the rewards."""
    make_tracker: MakeTracker
    workflow_target: str
    """As the configuration names it, for processes that load it again."""


@frozen(kw_only=True)
class Recipe:
    """Everything a rollout process needs besides an engine and a tokenizer."""

    workflow: str
    judges: tuple[Component, ...]
    tracker: Component
    engine: Component | None
    """None: the backbone brings its own."""

    def build(self, run_info: RunInfo, hooks: Hooks) -> Parts:
        """Make the parts; raises `PluginError` with the blame when one cannot be made."""
        loaded = load_workflow(self.workflow, run_info.config_dir)
        judges = [
            WeightedJudge(judge.candidate.name, judge.weight, hooks.make_judge(judge.candidate, judge.options, run_info))
            for judge in self.judges
        ]
        return Parts(
            make_workflow=loaded.make,
            trainable_targets=loaded.trainable_targets,
            judge=combine(judges),
            make_tracker=hooks.make_tracker(self.tracker.candidate, self.tracker.options, run_info),
            workflow_target=self.workflow,
        )
