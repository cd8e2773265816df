"""Where a run begins: at its start, or at a checkpoint that an earlier attempt left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from astuner.contract.errors import UsageError
from astuner.runs.store.directory import RunDirectory

if TYPE_CHECKING:
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

    @property
    def replay_after(self) -> int | None:
        """The step after which stored episodes are used again; None for a run without any."""
        if not self.resumed:
            return None
        return self.step or -1

    def leave_later(self, directory: RunDirectory) -> None:
        """Take later checkpoints, validations and records out of the way, once nothing can refuse the resume any more."""
        from astuner.runs.store.checkpoints import forget_validations, set_aside
        from astuner.runs.store.token_store import TokenStore

        set_aside(directory, after=self.step)
        forget_validations(directory, after=self.step)
        TokenStore(directory.trained_tokens).truncate_after(self.step)


def choose_start(directory: RunDirectory, plan: Plan, *, resume: bool, resume_from: str | None = None) -> StartStep:
    """Return where to begin, after checking that the run may be continued; `resume_from` is a step, `best` or `last`.

    A damaged checkpoint is passed over for the one before it, unless it was asked for by its step or as `best`.
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
    check_same_run(directory, plan)
    if chosen is not None:
        check_intact(chosen, [directory.checkpoint(step) for step in saved])
        return _go_back(directory, int(chosen.name.removeprefix("step_")))
    found = find_last_intact(directory)
    place = f"from step {found.step}, the last one that is intact" if found.step else "from its start: no checkpoint is intact"
    notices = [f"{damage}. The run continues {place}, and replays the stored episodes after it" for damage in found.damaged]
    return StartStep(step=found.step, resumed=True, notices=tuple(notices))


def _go_back(directory: RunDirectory, step: int) -> StartStep:
    later = [saved for saved in directory.list_saved_steps() if saved > step]
    if not later:
        return StartStep(step=step, resumed=True)
    named = ", ".join(map(str, later))
    return StartStep(
        step=step,
        resumed=True,
        notices=(
            f"the run goes back to step {step}: its metrics and validations after it are dropped, its stored episodes are "
            f"replayed, and the checkpoints of {'steps' if len(later) > 1 else 'step'} {named} are set aside as "
            f"{directory.checkpoints}/aside_N, until it has saved these steps again",
        ),
    )
