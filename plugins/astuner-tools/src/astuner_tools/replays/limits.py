"""What a replay takes from the run as it was, whatever the new configuration says about it."""

from __future__ import annotations

from collections.abc import Iterator

from astuner.runs.inspection.run import Run
from astuner.settings.config.trees import flatten
from astuner_tools.replays.scoring_choice import ScoringChoice

OF_SAMPLES = ("context_tracker", "rollout.multi_turn.max_sample_per_task", "trainer_common.algorithm.overlong_filter")
OF_FINDINGS = ("rollout.compute_madness_checklist",)
PENALTY = "trainer_common.algorithm.use_kl_in_reward"


def describe_limits(run: Run, choice: ScoringChoice) -> Iterator[str]:
    """Yield a text for each kind of key that differs from the run's and that a replay cannot act on."""
    stored, new = flatten(run.config), flatten(choice.loaded.resolved)
    for keys, what in ((OF_SAMPLES, "samples"), (OF_FINDINGS, "findings of abnormal behaviour")):
        changed = [key for key in new if key in stored and stored[key] != new[key] and _is_below(key, keys)]
        if changed:
            yield f"{', '.join(changed)}: another value than the run's, without effect here: the {what} are those of the run"
    if new.get(PENALTY) or stored.get(PENALTY):
        yield f"{PENALTY}: the advantages here are those without the divergence, which only the models can tell"


def _is_below(key: str, parents: tuple[str, ...]) -> bool:
    return any(key == parent or key.startswith(f"{parent}.") for parent in parents)
