"""Letting a judge judge labelled answers, as it would judge the episodes of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from attrs import evolve, frozen

from astuner.contract.protocols import Judge, JudgeTraits, read_traits
from astuner.contract.schema import Call, Episode, Group, Unjudged, Verdict, WorkflowOutput
from astuner.episodes.judging.group_judging import judge_group
from astuner_judges.evaluation.labelled import LabelledExample

GROUPS_AT_ONCE = 32
JUDGE_TIMEOUT_S = 600.0
POSITION_BIAS = "position_bias"
"""The component of a judge that shows its LLM the answers in several orders itself, whatever order they come in."""

Judgement = Verdict | Unjudged


@frozen(kw_only=True)
class JudgedExample:
    """A judge's verdicts on the answers of one example, in their order."""

    example: LabelledExample
    forwards: tuple[Judgement, ...]
    backwards: tuple[Judgement, ...] | None = None
    """Those on the same answers in the reverse order; None if the judge was asked only once."""

    @property
    def position_biases(self) -> list[float]:
        """The position biases that the judge itself reports, of each answer that has one."""
        given = [judgement.components for judgement in self.forwards if isinstance(judgement, Verdict)]
        return [components[POSITION_BIAS] for components in given if POSITION_BIAS in components]


async def ask(judge: Judge, examples: Sequence[LabelledExample], answer_field: str, *, both_orders: bool) -> list[JudgedExample]:
    """Return each example with its judgements; `both_orders` asks twice where several answers have verdicts to compare.

    A judge that gives its `position_bias` is not asked twice: it handles the order itself, and would say the same again. Nor is
    one that judges each answer on its own.
    A judge that raises or hangs leaves answers unjudged, for the reason that core gives in a run.
    """
    at_once = asyncio.Semaphore(GROUPS_AT_ONCE)
    both_orders = both_orders and read_traits(judge, JudgeTraits).compares_siblings

    async def judge_once(number: int, example: LabelledExample, *, reverse: bool) -> tuple[Judgement, ...]:
        async with at_once:
            group = build_group(number, example, answer_field, reverse=reverse)
            done = await judge_group(group, judge, timeout_s=JUDGE_TIMEOUT_S)
        found = tuple(episode.verdict for episode in done.episodes if episode.verdict is not None)
        return found[::-1] if reverse else found

    async def judge_example(number: int, example: LabelledExample) -> JudgedExample:
        found = JudgedExample(example=example, forwards=await judge_once(number, example, reverse=False))
        comparable = sum(isinstance(judgement, Verdict) for judgement in found.forwards) > 1
        if not both_orders or not comparable or found.position_biases:
            return found
        return evolve(found, backwards=await judge_once(number, example, reverse=True))

    return list(await asyncio.gather(*(judge_example(number, example) for number, example in enumerate(examples))))


def build_group(number: int, example: LabelledExample, answer_field: str, *, reverse: bool = False) -> Group:
    """Return the answers of an example as siblings of a run; each is the output and the only reply of its episode.

    Values that only one answer's row has are in the task of its episode, not in that of the group.
    """
    task = evolve(example.task, task_id=example.task.task_id or f"labelled-{number}")
    episodes = []
    for repeat, answer in enumerate(example.answers[::-1] if reverse else example.answers):
        call = Call(
            index=0,
            agent="agent",
            target_tag="agent",
            parent=None,
            kept=0,
            prompt_ids=np.array([], dtype=np.int32),
            output_ids=np.array([], dtype=np.int32),
            logprobs=np.array([], dtype=np.float32),
            finish_reason="stop",
            messages=tuple(evolve(task, main_query=example.query).messages),
            reply={"role": "assistant", "content": answer.text},
        )
        output = WorkflowOutput(metadata={answer_field: answer.text})
        own = evolve(task, metadata={**task.metadata, **answer.more})
        episodes.append(Episode(id=f"labelled/{number}/{repeat}", task=own, step=0, repeat=repeat, output=output, calls=(call,)))
    return Group(task=task, step=0, split="validation", episodes=tuple(episodes))
