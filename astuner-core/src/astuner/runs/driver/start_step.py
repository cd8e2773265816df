"""Where a run begins: at its start, or at a checkpoint that an earlier attempt left, and what is done once before it goes on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from astuner.contract.errors import UsageError
from astuner.runs.store.directory import RunDirectory

if TYPE_CHECKING:
    from astuner.episodes.rollout.sampler import TaskSampler
    from astuner.runs.driver.source_changes import Kind, SourceChanges
    from astuner.runs.store.episode_store import EpisodeFiles
    from astuner.settings.planning.plan import Plan


@frozen(kw_only=True)
class StartStep:
    """The step of the checkpoint that a run continues from."""

    step: int = 0
    """0: from the start."""
    resumed: bool = False
    """Whether an earlier attempt left work."""
    notices: tuple[str, ...] = ()
    """What the user should know about it."""
    defaults: tuple[str, ...] = ()
    """What another version has changed about it, and the user has accepted."""

    @property
    def replay_after(self) -> int | None:
        """The step after which stored episodes are used again; None for a run without any."""
        if not self.resumed:
            return None
        return self.step or -1

    def leave_later(self, directory: RunDirectory) -> list[str]:
        """Take later checkpoints, validations and records out of the way, once nothing can refuse the resume any more.

        Returns the names of unfinished checkpoints, which are deleted.
        """
        from astuner.runs.store.checkpoints import delete_unfinished, forget_validations, set_aside
        from astuner.runs.store.token_store import TokenStore

        set_aside(directory, after=self.step)
        forget_validations(directory, after=self.step)
        TokenStore(directory.trained_tokens).truncate_after(self.step)
        return delete_unfinished(directory)


def choose_start(
    directory: RunDirectory, plan: Plan, *, resume: bool, resume_from: str | None = None, accepted: Collection[str] = ()
) -> StartStep:
    """Return where to begin, after checking that the run may be continued; `resume_from` is a step, `best` or `last`.

    A damaged checkpoint is passed over for the one before it, unless it was asked for by its step or as `best`. `accepted` are
    the kinds of changes that the user accepts.
    """
    if not directory.holds_work:
        if resume_from not in (None, "last"):
            raise UsageError(f"--resume-from {resume_from}: {directory.path} holds no checkpoint yet; start without it")
        return StartStep()
    from astuner.runs.driver.resume import check_same_run, is_same_length
    from astuner.runs.store.checkpoints import check_intact, find_checkpoint, find_last_intact

    status = directory.state.get("status")
    if not resume:
        if status == "finished":
            ways = "choose another experiment_name (--set experiment_name=...), or delete the directory"
        else:
            ways = "continue with --resume, or choose another experiment_name (--set experiment_name=...)"
        raise UsageError(f"{directory.path}: already holds a run ({status or 'unfinished'}); {ways}")
    saved = directory.list_saved_steps()
    chosen = None if resume_from in (None, "last") else find_checkpoint(directory, str(resume_from))
    goes_back = chosen is not None and chosen != directory.checkpoint(saved[-1])
    if status == "finished" and not goes_back and is_same_length(directory, plan):
        earlier = f", go back with --resume-from {saved[0]}" if len(saved) > 1 else ""
        raise UsageError(
            f"{directory.path}: this run is finished; raise trainer_common.total_training_steps to go on{earlier}, "
            "or choose another experiment_name to train again"
        )
    changes = check_same_run(directory, plan, accepted=accepted)
    gone = (f"keys of this run that no longer exist: {', '.join(changes.gone)}",) if changes.gone else ()
    if chosen is not None:
        check_intact(chosen, [directory.checkpoint(step) for step in saved])
        back = _describe_way_back(directory, step := int(chosen.name.removeprefix("step_")))
        return StartStep(step=step, resumed=True, notices=(*gone, *back), defaults=changes.defaults)
    found = find_last_intact(directory)
    place = f"from step {found.step}, the last one that is intact" if found.step else "from its start: no checkpoint is intact"
    damages = (f"{damage}. The run continues {place}, and replays the stored episodes after it" for damage in found.damaged)
    return StartStep(step=found.step, resumed=True, notices=(*gone, *damages), defaults=changes.defaults)


def _describe_way_back(directory: RunDirectory, step: int) -> Iterator[str]:
    if later := [saved for saved in directory.list_saved_steps() if saved > step]:
        yield (
            f"the run goes back to step {step}: its metrics and validations after it are dropped, its stored episodes are "
            f"replayed, and the checkpoints of {'steps' if len(later) > 1 else 'step'} {', '.join(map(str, later))} are set "
            f"aside as {directory.checkpoints}/aside_N, until it has saved these steps again"
        )


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
    from astuner.runs.driver.resume import drop_episodes_of_other_rates
    from astuner.runs.driver.source_changes import KINDS, find_changes

    changes = evolve(find_changes(directory.run, facts), defaults=start.defaults)
    changes.check_accepted(directory.path.name, accepted)
    unfinished = start.leave_later(directory)
    notices = [*start.notices, *_describe_changes(changes, start.step, KINDS, accepted)]
    if unfinished:
        notices.append(f"{', '.join(unfinished)}: a save that was killed had left this in {directory.checkpoints}; it is deleted")
    if any(changes.find(kind) for kind in KINDS if kind in accepted):
        dropped = store.cut_after(start.step)
        notices.append(f"{dropped} stored episodes after step {start.step} are not used, but played again")
    if (rates := drop_episodes_of_other_rates(directory, plan, store, tasks, start.step)) is not None:
        notices.append(rates)
    return notices


def _describe_changes(changes: SourceChanges, step: int, kinds: Sequence[Kind], accepted: Collection[str]) -> Iterator[str]:
    for kind in kinds:
        changed = changes.find(kind)
        if changed and kind in accepted:
            yield f"changed since the run was last started, and accepted: {'; '.join(changed)}"
        elif kind in accepted:
            yield f"--accept-changes {kind}: nothing of this kind has changed"
        elif changed:
            yield (
                f"code changed since the run was last started: {'; '.join(changed)}. It plays and judges what is new; episodes "
                f"that are stored after step {step} are used as the earlier code played and judged them. "
                "--accept-changes code plays them again"
            )
    if changes.versions:
        yield f"changed since the run was last started: {'; '.join(changes.versions)}"
    if changes.rewritten:
        yield f"the files {', '.join(changes.rewritten)} have another content than before, and the same tasks"
