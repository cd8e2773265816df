"""Playing the validation tasks of a configuration with one contestant after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from attrs import frozen

from astuner.contract.errors import RunFailed
from astuner.contract.schema import Group
from astuner.contract.token_streams import prompt_length
from astuner.episodes.containment.process_state import restore_process_state
from astuner.episodes.rollout.scores import count_failures
from astuner.runs.driver.launch import evaluate_run
from astuner.runs.driver.run_request import RunRequest
from astuner.settings.planning.plan import plan_run
from astuner_tools.evaluations.api_backbone import GENERATED_TOKENS, PROMPT_TOKENS
from astuner_tools.evaluations.contestants import Contestant
from astuner_tools.evaluations.evaluation import Cost, PlayedContestant, score_tasks


@frozen(kw_only=True)
class Match:
    """What is the same for all contestants."""

    request: RunRequest
    home: str
    """The directory of the run that the YAML names."""

    def ask(self, contestant: Contestant, *, alone: bool) -> RunRequest:
        """Return the request of one; each of several has a directory of its own next to the run's."""
        own = () if alone else (f"experiment_dir={self.home}-{contestant.slug}",)
        return RunRequest(
            conf=self.request.conf,
            backbone=contestant.backbone or self.request.backbone,
            overrides=(*self.request.overrides, *contestant.overrides, *own),
            services=self.request.services,
        )


def play_contestants(match: Match, contestants: Sequence[Contestant], say: Callable[[str], object]) -> list[PlayedContestant]:
    """Play one after another, each in the state that the process had; `say` shows lines of progress.

    Raises the errors of all configurations before the first one plays, and `RunFailed` if a pass ends without a result.
    """
    alone = len(contestants) == 1
    asked = [match.ask(one, alone=alone) for one in contestants]
    home = match.request.conf.absolute().parent
    if not alone:
        for request in asked:
            with restore_process_state(home):
                plan_run(request.conf, request.overrides, request.backbone, trains=False)
    played = []
    for number, (one, request) in enumerate(zip(contestants, asked, strict=True), 1):
        if not alone:
            say(f"contestant {number} of {len(contestants)}: {one.name} ({one.source})")
        with restore_process_state(home):
            played.append(_play(one, request))
        say(f"  {played[-1].directory}")
    return played


def _play(contestant: Contestant, request: RunRequest) -> PlayedContestant:
    started = time.monotonic()
    outcome = evaluate_run(request, contestant.checkpoint)
    seconds = time.monotonic() - started
    if outcome.after is None:
        raise RunFailed(
            f"{outcome.directory}: there are no validation tasks, so there is nothing to evaluate. Name some in task_reader"
        )
    groups = outcome.after_groups
    return PlayedContestant(
        name=contestant.name,
        source=contestant.source,
        directory=outcome.directory,
        metrics=dict(outcome.after),
        failed=count_failures(episode for group in groups for episode in group.episodes).total(),
        cost=_add_up(groups, outcome.after, seconds),
        tasks=score_tasks(groups),
    )


def _add_up(groups: Sequence[Group], metrics: object, seconds: float) -> Cost:
    calls = [call for group in groups for episode in group.episodes for call in episode.calls]
    prompt, generated = sum(map(prompt_length, calls)), sum(len(call.output_ids) for call in calls)
    if isinstance(metrics, dict) and PROMPT_TOKENS in metrics:
        prompt, generated = int(metrics[PROMPT_TOKENS]), int(metrics[GENERATED_TOKENS])
    return Cost(calls=len(calls), prompt_tokens=prompt or None, generated_tokens=generated or None, seconds=seconds)
