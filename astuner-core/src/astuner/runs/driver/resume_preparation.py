"""What happens between the decision to resume a run and its first step: nothing here is repeated by the steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from astuner.runs.driver.resume import drop_episodes_of_other_rates
from astuner.runs.driver.source_changes import KINDS, SourceChanges, find_changes
from astuner.runs.driver.start_step import StartStep
from astuner.runs.store.directory import RunDirectory

if TYPE_CHECKING:
    from astuner.episodes.rollout.sampler import TaskSampler
    from astuner.runs.store.episode_store import EpisodeFiles
    from astuner.settings.planning.plan import Plan


def prepare_resume(
    directory: RunDirectory,
    plan: Plan,
    store: EpisodeFiles,
    tasks: TaskSampler,
    start: StartStep,
    facts: Mapping[str, Any],
    accepted: Collection[str],
) -> list[str]:
    """Check what the run is made from, and drop what this attempt cannot use; return the notices for the user.

    `facts` is what `run.json` will hold. Raises `UsageError` for changes that are not accepted, before anything is dropped.
    """
    changes = find_changes(directory.run, facts)
    changes.check_accepted(directory.path.name, accepted)
    start.leave_later(directory)
    notices = [*start.notices, *_describe_changes(changes, start, accepted)]
    if any(changes.find(kind) for kind in KINDS if kind in accepted):
        dropped = store.cut_after(start.step)
        notices.append(f"{dropped} stored episodes after step {start.step} are not used, but played again")
    if (rates := drop_episodes_of_other_rates(directory, plan, store, tasks, start.step)) is not None:
        notices.append(rates)
    return notices


def _describe_changes(changes: SourceChanges, start: StartStep, accepted: Collection[str]) -> Iterator[str]:
    for kind in KINDS:
        changed = changes.find(kind)
        if changed and kind in accepted:
            yield f"changed since the run was last started, and accepted: {'; '.join(changed)}"
        elif kind in accepted:
            yield f"--accept-changes {kind}: nothing of this kind has changed"
        elif changed:
            yield (
                f"code changed since the run was last started: {'; '.join(changed)}. It plays and judges what is new; episodes "
                f"that are stored after step {start.step} are used as the earlier code played and judged them. "
                "--accept-changes code plays them again"
            )
    if changes.versions:
        yield f"changed since the run was last started: {'; '.join(changes.versions)}"
    if changes.rewritten:
        yield f"the files {', '.join(changes.rewritten)} have another content than before, and the same tasks"
