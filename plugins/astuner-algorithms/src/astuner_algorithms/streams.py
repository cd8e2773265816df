"""Estimators that see whole episodes: what each token counts in the policy gradient, and what is imitated."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve, field, frozen
from attrs.validators import ge, gt, le, lt
from numpy.typing import NDArray

from astuner.contract.protocols import EstimatorTraits, Outcome, RunInfo, Streams
from astuner_algorithms.teacher_server import PLACES, TeacherServer

Values = NDArray[np.float64]
Groups = Sequence[Sequence[Outcome]]

SECTION_OF_OPD = "astuner.trainer_common.algorithm.opd"
EPSILON = 1e-6
"""Added to a standard deviation before dividing, as in verl."""
ROUNDING = 1e-12
"""Rewards whose difference is smaller, relative to theirs or to 1, are equal: 0.1 + 0.2 and 0.3."""
EPSILON_OF_VARIANCE = 1e-8
"""Added to the variance of a whole step, as in verl."""


class Sft:
    """Imitates every rewarded episode: the mean of -log π. For episodes that a better model plays, a teacher or a script."""

    traits = EstimatorTraits(gives_streams=True, beyond_advantages=True, group_relative=False)

    def signal(self, groups: Groups) -> Sequence[Sequence[Streams]]:
        """Return a likelihood of 1 for all."""
        return [[Streams(likelihood=1.0) for _ in siblings] for siblings in groups]


class RejectionSampling:
    """Imitates the best of the siblings, if it is good enough (RAFT, Dong et al. 2023, arXiv 2304.06767).

    The siblings that are equally good share the likelihood of 1, so that each task counts once.
    """

    traits = EstimatorTraits(gives_streams=True, beyond_advantages=True, group_relative=False)

    @frozen(kw_only=True)
    class Options:
        """What is good enough."""

        least_reward: float = 0.0
        """What is imitated has a reward above this."""

    def __init__(self, options: Options | None = None) -> None:
        """Take the options."""
        self.options = options or self.Options()

    def signal(self, groups: Groups) -> Sequence[Sequence[Streams]]:
        """Return the likelihoods."""
        found = []
        for siblings in groups:
            best = max((one.reward for one in siblings), default=0.0)
            chosen = [one.reward == best > self.options.least_reward for one in siblings]
            found.append([Streams(likelihood=taken / max(1, sum(chosen))) for taken in chosen])
        return found


class Opd:
    """On-policy distillation: A = log ρ - log μ of each token, ρ a teacher (Agarwal et al. 2024, arXiv 2306.13649).

    The mean gradient is that of the reverse divergence KL(π‖ρ) token by token. Rewards do not count; an episode needs one to take
    part. A teacher that vLLM serves is asked by the estimator itself, so that every backbone has it.
    """

    traits = EstimatorTraits(gives_streams=True, group_relative=False)

    @frozen(kw_only=True)
    class Options:
        """The teacher."""

        teacher: str
        """A model with the same tokenizer: a folder, such as a checkpoint, or a name; or the address of a vLLM server that serves
        it, such as `http://127.0.0.1:8000/v1`, with `rollout.temperature: 1`."""
        served_name: str | None = None
        """Its name at the server; null for the only one that it serves."""
        api_key_env: str | None = None
        """The environment variable with the server's key; null for none."""
        most: float = field(default=10.0, validator=gt(0))
        """The largest |A|, in nats: a token that the teacher rules out does not decide a step."""

    def __init__(self, options: Options, server: TeacherServer | None = None) -> None:
        """Take the teacher's name, or the server that it is at."""
        self.options, self.server = options, server
        if server is None:
            self.traits = evolve(self.traits, scored_by=(options.teacher,))

    @classmethod
    def from_run(cls, options: Options, run_info: RunInfo) -> Opd:
        """Try the server, if the teacher is at one; raises `ConfigError` if it cannot score what the run samples."""
        if not options.teacher.startswith(PLACES):
            return cls(options)
        server = TeacherServer.open(
            options.teacher,
            name=options.served_name,
            api_key_env=options.api_key_env,
            run_info=run_info,
            section=SECTION_OF_OPD,
        )
        return cls(options, server)

    def signal(self, groups: Groups) -> Sequence[Sequence[Streams]]:
        """Return the advantages; a server is asked for all of them at once."""
        outcomes = [one for siblings in groups for one in siblings]
        if self.server is None:
            scores = [one.scores[self.options.teacher] for one in outcomes]
        else:
            samples = [[sample for sample in one.episode.samples if sample.agent == one.agent] for one in outcomes]
            found = iter(self.server.score([sample for own in samples for sample in own]))
            scores = [np.concatenate([np.zeros(0), *(next(found) for _ in own)]) for own in samples]
        most = self.options.most
        values = iter((score - one.logprobs).clip(-most, most) for one, score in zip(outcomes, scores, strict=True))
        return [[Streams(advantages=next(values)) for _ in siblings] for siblings in groups]


class Remax:
    """The return less the reward of a greedy sibling (ReMax, Li et al. 2023, arXiv 2310.10505).

    Each task has one more episode, at temperature 0, that is not trained: an unbiased baseline of the task without siblings, so
    one trained episode per task is enough. With the divergence in the reward a token's return is less the penalties from it on,
    as in verl. A group whose greedy sibling has no reward gives no signal.
    """

    traits = EstimatorTraits(gives_streams=True, wants_greedy=True, group_relative=False)

    def signal(self, groups: Groups) -> Sequence[Sequence[Streams]]:
        """Return the advantages."""
        return [[Streams(advantages=self._compare(one)) for one in siblings] for siblings in groups]

    def _compare(self, one: Outcome) -> Values:
        if one.greedy is None:
            return np.zeros(one.tokens)
        found = one.returns - one.greedy
        # AdamW would make full steps of what is only rounded.
        found[np.abs(found) <= ROUNDING * max(1.0, abs(one.greedy))] = 0.0
        return found


class Gdpo:
    """Each component of the reward normalised among siblings on its own, then added (Liu et al. 2026, arXiv 2601.05242).

    Σ w·(r - mean)/std, and the sums normalised over all trained tokens of the step, as in verl. So a component whose range is
    small is not drowned by one whose range is large.
    """

    traits = EstimatorTraits(gives_streams=True, group_relative=False)

    @frozen(kw_only=True)
    class Options:
        """The components."""

        weights: Mapping[str, float] | None = None
        """The weight of each component of the verdict that counts; null counts all alike, or the reward where there is none."""

    def __init__(self, options: Options | None = None) -> None:
        """Take the weights."""
        self.options = options or self.Options()

    def signal(self, groups: Groups) -> Sequence[Sequence[Streams]]:
        """Return the advantages."""
        sums = [self._add_up(siblings) for siblings in groups]
        tokens = np.array([one.tokens for siblings in groups for one in siblings], np.float64)
        values = np.concatenate([np.zeros(0), *sums])
        if tokens.sum() < 2:
            return [[Streams() for _ in siblings] for siblings in groups]
        mean = np.average(values, weights=tokens)
        variance = ((values - mean) ** 2 * tokens).sum() / (tokens.sum() - 1)
        scale = np.sqrt(variance + EPSILON_OF_VARIANCE)
        return [[Streams(advantages=float((value - mean) / scale)) for value in own] for own in sums]

    def _add_up(self, siblings: Sequence[Outcome]) -> Values:
        components = [self._read(one) for one in siblings]
        names = self.options.weights or dict.fromkeys((name for one in components for name in one), 1.0)
        found = np.zeros(len(siblings))
        for name, weight in names.items():
            found += weight * normalise(np.array([one.get(name, 0.0) for one in components], np.float64))
        return found

    def _read(self, one: Outcome) -> Mapping[str, float]:
        return getattr(one.episode.verdict, "components", None) or {"reward": one.reward}


class TurnLevel:
    """Group-relative, turn by turn: that of the episode plus that of its turn (GiGPO, Feng et al. 2025, arXiv 2505.10978).

    A turn's return is the discounted sum of the environment's rewards from it on; without them the episode's reward, discounted
    by how many turns were left. It is compared with all turns of the siblings that were taken where the model had just been told
    the same, the anchor states of the paper.
    """

    traits = EstimatorTraits(gives_streams=True)

    @frozen(kw_only=True)
    class Options:
        """How a turn's return is made, and what it counts."""

        discount: float = field(default=0.95, validator=[gt(0), le(1)])
        """What a reward one turn later counts."""
        turn_weight: float = field(default=1.0, validator=ge(0))
        """What the comparison of turns counts beside that of episodes."""
        norm_by_std: bool = True
        """Divide by the standard deviation of what is compared."""

    def __init__(self, options: Options | None = None) -> None:
        """Take the options."""
        self.options = options or self.Options()

    def signal(self, groups: Groups) -> Sequence[Sequence[Streams]]:
        """Return the advantages."""
        return [self._compare(siblings) for siblings in groups]

    def _compare(self, siblings: Sequence[Outcome]) -> list[Streams]:
        of_episodes = normalise(np.array([one.reward for one in siblings]), by_std=self.options.norm_by_std)
        states: defaultdict[str, list[tuple[int, int, float]]] = defaultdict(list)
        for number, one in enumerate(siblings):
            calls = [call for call in one.episode.calls if call.agent == one.agent]
            for call, value in zip(calls, self._discount(one, len(calls)), strict=True):
                told = (
                    json.dumps(call.messages[-1:], sort_keys=True, default=str) if call.messages else str(list(call.prompt_ids))
                )
                states[told].append((number, call.index, value))
        found = [np.full(one.tokens, value) for one, value in zip(siblings, of_episodes, strict=True)]
        for turns in states.values():
            values = normalise(np.array([value for _, _, value in turns]), by_std=self.options.norm_by_std)
            for (number, index, _), value in zip(turns, values, strict=True):
                found[number][siblings[number].calls == index] += self.options.turn_weight * value
        return [Streams(advantages=values) for values in found]

    def _discount(self, one: Outcome, turns: int) -> list[float]:
        """Return the return of each turn; rewards beyond the last turn belong to it."""
        output = one.episode.output
        given = list((output.metadata if output else {}).get("rewards") or [])
        rewards = [*given[:turns], *[0.0] * (turns - len(given))] if given else [*[0.0] * (turns - 1), one.reward][:turns]
        if turns:
            rewards[-1] += sum(given[turns:])
        found: list[float] = []
        for reward in reversed(rewards):
            found.append(reward + self.options.discount * (found[-1] if found else 0.0))
        return found[::-1]


class Rae:
    """`r - what the agent's role has got so far`, for self-play (role-conditioned, Liu et al. 2025, arXiv 2506.24119).

    The baseline of a role is a moving average over all of its episodes, so what a role always gets, such as the advantage of
    moving first, is no merit. A step is compared with the baseline before it, the first one with its own mean.
    """

    traits = EstimatorTraits(gives_streams=True, keeps_state=True, group_relative=False)

    @frozen(kw_only=True)
    class Options:
        """The moving average."""

        decay: float = field(default=0.95, validator=[ge(0), lt(1)])
        """What the baseline keeps with each episode."""

    def __init__(self, options: Options | None = None) -> None:
        """Take the options; no role has a baseline yet."""
        self.options = options or self.Options()
        self.baselines: dict[str, float] = {}

    def signal(self, groups: Groups) -> Sequence[Sequence[Streams]]:
        """Return the advantages, and move the baselines."""
        rewards: defaultdict[str, list[float]] = defaultdict(list)
        for one in (one for siblings in groups for one in siblings):
            rewards[one.agent].append(one.reward)
        before = {role: self.baselines.get(role, float(np.mean(values))) for role, values in rewards.items()}
        for role, values in rewards.items():
            moved = before[role]
            for value in values:
                moved = self.options.decay * moved + (1 - self.options.decay) * value
            self.baselines[role] = moved
        return [[Streams(advantages=one.reward - before[one.agent]) for one in siblings] for siblings in groups]

    def get_state(self) -> Any:
        """Return the baselines."""
        return self.baselines

    def set_state(self, state: Any) -> None:
        """Take them back."""
        self.baselines = dict(state)


def normalise(values: Values, *, by_std: bool = True) -> Values:
    """Return `(value - mean) / std`; 0 for a single one, and where all are equal."""
    if values.size < 2 or np.ptp(values) == 0:
        return np.zeros(values.size)
    found: Values = (values - values.mean()) / (values.std(ddof=1) + EPSILON if by_std else 1.0)
    return found
