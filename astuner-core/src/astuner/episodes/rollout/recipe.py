"""How a rollout process makes its parts: names and options, picklable, nothing alive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from attrs import frozen

from astuner.contract.errors import PluginError
from astuner.contract.protocols import ComponentMaker, Estimator, Judge, MakeTracker, PolicyLoss, RunInfo, Sandboxes, Workflow
from astuner.episodes.judging.composition import WeightedJudge
from astuner.episodes.rollout.detection import NamedDetector
from astuner.episodes.rollout.workflows import LoadedWorkflow, load_workflow
from astuner.settings.plugins.component import Component

if TYPE_CHECKING:
    from astuner.episodes.rollout.environments.lifetime import Environments
    from astuner.episodes.rollout.environments.selection import EnvironmentChoice
    from astuner.settings.plugins.catalog import Catalog


@frozen(kw_only=True)
class Parts:
    """What the episode runner works with, alive."""

    make_workflow: Callable[[], Workflow] | None
    """None: the environment leads."""
    trainable_targets: tuple[str, ...] | None
    judge: Judge | None
    """None: the workflow gives the rewards."""
    make_tracker: MakeTracker
    workflow_target: str
    """As the configuration names it, for processes that load it again."""
    workflow_blocks: bool = False
    """Whether it is a plain `def`, which runs in a thread of its own."""
    environments: Environments | None = None
    """None: no task has one."""
    detectors: tuple[NamedDetector, ...] = ()
    """Of abnormal behaviour; they watch every episode."""
    sandboxes: Sandboxes | None = None
    """None: the workflow runs no programs in them."""


@frozen(kw_only=True)
class Recipe:
    """Everything a rollout process needs besides an engine and a tokenizer."""

    workflow: str | None
    """None: the environment leads."""
    judges: tuple[Component, ...]
    tracker: Component
    engine: Component | None
    """None: the backbone brings its own."""
    estimator: Component
    """Of advantages, for what trains."""
    policy_loss: Component
    """For what trains."""
    sampler: Component
    """Of tasks, for what trains."""
    catalog: Catalog
    """Where the environments are found that tasks name."""
    environments: EnvironmentChoice | None = None
    """None: no task has one."""
    detectors: tuple[Component, ...] = ()
    """Of abnormal behaviour."""
    sandbox: Component | None = None
    """What makes sandboxes, for a workflow that runs programs in them; None for one that does not."""

    def build(self, run_info: RunInfo, hooks: ComponentMaker) -> Parts:
        """Make the parts; raises `PluginError` with the blame when one cannot be made."""
        loaded = None if self.workflow is None else load_workflow(self.workflow, run_info.config_dir, run_info)
        sandboxes, make_workflow = self._sandboxes(loaded, run_info, hooks)
        judge = hooks.make_reward(make_judges(self.judges, run_info, hooks), run_info)
        make_tracker = hooks.make_tracker(self.tracker.candidate, self.tracker.options, run_info)
        # What a tracker lacks, such as the key of an LLM, is reported before the first episode.
        make_tracker()
        return Parts(
            make_workflow=make_workflow,
            trainable_targets=loaded.trainable_targets if loaded else None,
            judge=judge,
            make_tracker=make_tracker,
            workflow_target=self.workflow or "",
            workflow_blocks=loaded is not None and loaded.blocks,
            environments=self._environments(run_info, hooks, in_threads=loaded is not None and loaded.blocks),
            detectors=tuple(_detector(chosen, run_info, hooks) for chosen in self.detectors),
            sandboxes=sandboxes,
        )

    def make_estimator(self, run_info: RunInfo, hooks: ComponentMaker) -> Estimator:
        """Make the estimator; raises `PluginError` with the blame when it cannot be made."""
        return hooks.make_estimator(self.estimator.candidate, self.estimator.options, run_info)

    def make_loss(self, run_info: RunInfo, hooks: ComponentMaker) -> PolicyLoss:
        """Make the policy gradient's loss; raises `PluginError` with the blame when it cannot be made."""
        return hooks.make_loss(self.policy_loss.candidate, self.policy_loss.options, run_info)

    def _sandboxes(
        self, loaded: LoadedWorkflow | None, run_info: RunInfo, hooks: ComponentMaker
    ) -> tuple[Sandboxes | None, Callable[[], Workflow] | None]:
        """Return what opens sandboxes, if the workflow needs it, and what makes a workflow."""
        if loaded is None or loaded.in_sandboxes is None:
            return None, None if loaded is None else loaded.make
        if self.sandbox is None:
            raise PluginError(f"{self.workflow} runs programs in sandboxes, and no sandbox was chosen (astuner.sandbox.type)")
        sandboxes = hooks.make_sandbox(self.sandbox.candidate, self.sandbox.options, run_info)
        sandboxes.check()
        make = partial(loaded.in_sandboxes.with_sandboxes, run_info, sandboxes)
        # What the program lacks is reported before the first episode.
        make()
        return sandboxes, make

    def _environments(self, run_info: RunInfo, hooks: ComponentMaker, *, in_threads: bool) -> Environments | None:
        if self.environments is None:
            return None
        from astuner.episodes.rollout.environments.lifetime import Environments

        return Environments(self.environments, run_info, self.catalog, hooks, in_threads=in_threads)


def make_judges(judges: Sequence[Component], run_info: RunInfo, hooks: ComponentMaker) -> list[WeightedJudge]:
    """Make each judge, with the terms on which it counts; raises `PluginError` with the blame when one cannot be made."""
    return [_weigh(judge, hooks.make_judge(judge.candidate, judge.options, run_info)) for judge in judges]


def _weigh(chosen: Component, judge: Judge) -> WeightedJudge:
    terms = chosen.terms
    if terms is None:
        return WeightedJudge(chosen.candidate.name, 1.0, judge)
    name = terms.name or chosen.candidate.name
    return WeightedJudge(name, terms.weight, judge, terms.requires, terms.otherwise, terms.shape, terms.only)


def _detector(chosen: Component, run_info: RunInfo, hooks: ComponentMaker) -> NamedDetector:
    made = hooks.make_detector(chosen.candidate, chosen.options, run_info)
    return NamedDetector(chosen.candidate.name, chosen.candidate.blame, made)
