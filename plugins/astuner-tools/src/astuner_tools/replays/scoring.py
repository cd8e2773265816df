"""A stored group scored again: failures and abnormal behaviour by the new keys, everything else by the new judge."""

from __future__ import annotations

from attrs import evolve

from astuner.contract.protocols import Judge, RunInfo
from astuner.contract.schema import Episode, Group
from astuner.episodes.judging.group_judging import judge_group
from astuner.episodes.rollout.detection import abnormal_verdict
from astuner.episodes.rollout.episode_failures import make_failure_verdict
from astuner_tools.replays.observations import StoredObservations


class Scoring:
    """Scores groups as a run does after its episodes are played."""

    def __init__(self, judge: Judge | None, observations: StoredObservations, run_info: RunInfo) -> None:
        """Without a judge only the rewards of workflows count."""
        self._judge, self._observations = judge, observations
        self._config = run_info.config.rollout
        self._timeout_s = run_info.config.task_judge.timeout_s
        self.without_samples = 0
        """Failed episodes that get a reward now, and of which the run has kept no samples."""

    def prepare(self, stored: Group) -> Group:
        """Return the group as it was before its judge was asked."""
        return stored.with_played(map(self._prepare_episode, stored.played))

    async def judge(self, prepared: Group) -> Group:
        """Return the group with its new verdicts."""
        if all(episode.verdict is not None for episode in prepared.played if episode.completed):
            return prepared
        worth = self._config.failure_rewards.judge_error
        return await judge_group(prepared, self._judge, timeout_s=self._timeout_s, failure_reward=worth)

    def _prepare_episode(self, episode: Episode) -> Episode:
        verdict, blank = None, evolve(episode, verdict=None)
        if not episode.completed:
            reason = episode.failures[-1].reason if episode.failures else ""
            verdict = make_failure_verdict(reason, self._config.failure_rewards)
            if verdict is None:
                return _untrain(blank)
            self.without_samples += not episode.samples and any(len(call.output_ids) for call in episode.calls)
        if episode.abnormal:
            verdict = abnormal_verdict(episode.findings, self._config.agent_madness_reward)
        if verdict is not None:
            return blank.with_verdict(verdict)
        return evolve(blank, observations=self._observations.translate(episode.observations))


def _untrain(failed: Episode) -> Episode:
    """Count everything that was sampled in a failed episode as untrained, if it is not yet."""
    if not failed.samples:
        return failed
    return evolve(failed, samples=(), untrained={"failed": sum(len(call.output_ids) for call in failed.calls)})
