"""Episodes of several calls, as the token tree records them: a conversation, and one that starts again from its first prompt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astuner.contract.schema import Call, Episode, Failure, Sample, Task, Unjudged, Verdict, WeightSpan, WorkflowOutput


def call(index: int, parent: int | None, kept: int, fed: Sequence[int], sampled: Sequence[int]) -> Call:
    """Return a call; its log-probabilities are such as take all nine digits."""
    return Call(
        index=index,
        agent="agent",
        target_tag="agent",
        parent=parent,
        kept=kept,
        prompt_ids=np.array(fed, np.int32),
        output_ids=np.array(sampled, np.int32),
        logprobs=-np.sqrt(np.array(sampled, np.float32)) / 97,
        finish_reason="stop",
        weights=(WeightSpan(start=0, version=2), WeightSpan(start=1, version=3)),
        messages=({"role": "user", "content": f"Größe {index}?"},),
        reply={"role": "assistant", "content": f"»{index}«"},
    )


def conversation(identity: str = "train/2/größe/1") -> Episode:
    """Return an episode of three calls: the second continues the first, the third starts again from the first prompt."""
    calls = (
        call(0, None, 0, [1, 150_000, 7], [40, 41, 2]),
        call(1, 0, 6, [9, 9], [50, 2]),
        call(2, 0, 3, [8], [60, 61, 62, 2]),
    )
    _, step, task, repeat = identity.split("/")
    paths = (((0, 1), (calls[0], calls[1])), ((2,), (calls[2],)))
    samples = []
    for trained, parts in paths:
        ids = [
            *(() if trained != (2,) else calls[0].prompt_ids),
            *(i for one in parts for i in (*one.prompt_ids, *one.output_ids)),
        ]
        mask = [*(() if trained != (2,) else [False] * 3)]
        mask += [flag for one in parts for flag in [False] * len(one.prompt_ids) + [True] * len(one.output_ids)]
        logprobs = np.zeros(len(ids), np.float32)
        logprobs[np.array(mask)] = np.concatenate([one.logprobs for one in parts])
        sample = Sample(
            episode_id=identity,
            task_id=task,
            repeat=int(repeat),
            agent="agent",
            ids=np.array(ids, np.int32),
            mask=np.array(mask),
            logprobs=logprobs,
            calls=trained,
        )
        samples.append(sample)
    return Episode(
        id=identity,
        task=Task("Größe?", task_id=task, metadata={"answer": "3"}),
        step=int(step),
        repeat=int(repeat),
        output=WorkflowOutput(metadata={"final_answer": "3"}),
        calls=calls,
        samples=tuple(samples),
        failures=(Failure(reason="timeout", retried=True, tokens=3),),
        duration_s=1.5,
    )


def list_stored() -> list[Episode]:
    """Return the episodes of `astuner-core/tests/runs/data/arrays_of_numbers.jsonl`, with their verdicts."""
    failed = Episode(
        id="train/2/größe/2",
        task=Task("Größe?", task_id="größe", metadata={"answer": "3"}),
        step=2,
        repeat=2,
        failures=(Failure(reason="workflow_error", detail="ValueError: 3", place="agent.py:12 in solve"),),
    )
    verdicts = (Verdict(0.1, True, rationale="Right."), Unjudged(reason="judge_error", detail="HTTP 500"))
    first, second = conversation("train/1/größe/0"), conversation()
    return [first.with_verdict(verdicts[0]), second.with_verdict(verdicts[1]), failed]
