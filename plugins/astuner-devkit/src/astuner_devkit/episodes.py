"""Small made-up episodes, for tests of judges, loggers and other users of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from astuner.contract.schema import Call, Episode, Group, Sample, Task, Unjudged, Verdict, WeightSpan, WorkflowOutput


def sample(episode_id: str, agent: str = "agent", trained: int = 3, task_id: str = "t") -> Sample:
    """Return a sample of one fed id and `trained` sampled ones."""
    mask = np.array([False, *[True] * trained])
    return Sample(
        episode_id=episode_id,
        task_id=task_id,
        repeat=0,
        agent=agent,
        ids=np.arange(1 + trained, dtype=np.int32),
        mask=mask,
        logprobs=np.where(mask, np.float32(-0.1), np.float32(0)).astype(np.float32),
        calls=(0,),
    )


def episode(
    repeat: int = 0,
    reward: float | None = 1.0,
    *,
    task: str = "t",
    step: int = 1,
    split: str = "train",
    agents: Sequence[str] = ("agent",),
    rewards: Mapping[str, float] | None = None,
    success: bool | None = None,
    rows: int = 1,
) -> Episode:
    """Return a completed episode of one call; `reward` None is a judge's failure."""
    identity = f"{split}/{step}/{task}/{repeat}"
    verdict = Unjudged(reason="judge_error") if reward is None else Verdict(reward, success, rewards=rewards)
    call = Call(
        index=0,
        agent="agent",
        target_tag="agent",
        parent=None,
        kept=0,
        prompt_ids=np.array([5, 6], dtype=np.int32),
        output_ids=np.array([7, 8, 2], dtype=np.int32),
        logprobs=np.array([-0.1, -1.2345678, -3e-8], dtype=np.float32),
        finish_reason="stop",
        weights=(WeightSpan(start=0, version=3),),
        messages=({"role": "user", "content": "π?"},),
        reply={"role": "assistant", "content": "3"},
        tools=({"type": "function", "function": {"name": "f"}},),
    )
    return Episode(
        id=identity,
        task=Task(main_query="π?", task_id=task, metadata={"answer": "3"}),
        step=step,
        repeat=repeat,
        split=split,  # type: ignore[arg-type]
        output=WorkflowOutput(metadata={"final_answer": "3"}, log_metrics={"turns": 2.0}),
        calls=(call,),
        samples=tuple(sample(identity, agent, task_id=task) for agent in agents for _ in range(rows)),
        verdict=verdict,
    )


def group(*episodes: Episode) -> Group:
    """Return the group of these siblings, of which one may be greedy."""
    return Group(task=episodes[0].task, step=episodes[0].step, split=episodes[0].split, episodes=()).with_played(episodes)
