"""Runs with one disease each, and their healthy counterparts, made of the records that a diagnosis reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from astuner.contract.schema import Call, Episode, Failure, Unjudged, Verdict
from astuner.runs.store.metric_rows import Row
from astuner_devkit.episodes import episode
from astuner_tools.diagnosis.run_record import RunRecord

REPEATS = 4
CONFIG: Mapping[str, Any] = {
    "trainer_common": {"optim": {"lr": 1e-5}, "use_kl_loss": True, "kl_loss_coef": 0.002},
    "rollout": {"num_repeat": REPEATS, "temperature": 1.0, "max_model_len": 512, "max_response_length_in_one_turn": 64},
    "data": {"max_response_length": 384},
}

Curve = Sequence[float] | float


def write_rows(steps: int, reward: Curve, **curves: Curve) -> list[Row]:
    """Return the metrics of training steps; a number is that of every step. `/` in names is written `__`."""

    def read(curve: Curve, at: int) -> float:
        return curve if isinstance(curve, int | float) else curve[at]

    usual: dict[str, Curve] = {
        "reward/std": 0.45,
        "signal/episodes": 64,
        "signal/groups": 8,
        "signal/groups_without_signal": 1,
        "signal/tokens_trainable": 1000,
        "signal/tokens_nonzero_advantage": 900,
        "tokens/generated": 1000,
        "entropy/mean": 0.5,
        "kl/mean": 0.02,
        "mismatch/exp_abs_mean": 1.02,
        "staleness/mean": 0,
    }
    named = {**usual, "reward/mean": reward, **{name.replace("__", "/"): curve for name, curve in curves.items()}}
    return [
        {"step": step, "kind": "train", **{name: read(curve, step - 1) for name, curve in named.items()}}
        for step in range(1, steps + 1)
    ]


def write_validation(step: int, reward: float, episodes: int = 100) -> Row:
    """Return the metrics of a validation."""
    return {"step": step, "kind": "validation", "val/reward/mean": reward, "val/reward/std": 0.4, "val/episodes": episodes}


def write_success(step: int, reward: float, success: float) -> Row:
    """Return the metrics of a validation of 100 episodes, with its success."""
    return {**write_validation(step, reward), "val/success/rate": success, "val/success/count": 100}


def rise(steps: int, first: float = 0.1, last: float = 0.8) -> list[float]:
    """Return a noisy curve that rises, or falls."""
    noise = np.random.default_rng(0).normal(0, 0.02, steps)
    return [float(first + (last - first) * at / (steps - 1) + noise[at]) for at in range(steps)]


def play(
    step: int,
    reply: Callable[[int, int], str],
    reward: Callable[[int, int], float | None] = lambda task, repeat: float(repeat % 2),
    *,
    tasks: int = 8,
    change: Callable[[Episode], Episode] = lambda one: one,
    **call: Any,
) -> list[Episode]:
    """Return the episodes of a step; `reply` and `reward` depend on task and repeat."""
    found = []
    for task in range(tasks):
        for repeat in range(REPEATS):
            made = episode(repeat, reward(task, repeat), task=f"task-{task}", step=step)
            said = {"role": "assistant", "content": reply(task, repeat)}
            found.append(change(evolve(made, calls=(evolve(made.calls[0], **{"reply": said, "tools": (), **call}),))))
    return found


def differ(task: int, repeat: int) -> str:
    """Say something else each time."""
    return f"I think that it is {task * 10 + repeat}."


def praise(task: int, repeat: int) -> str:
    """Answer any task with the same words, most of the time."""
    return "As you can see the answer is correct." if repeat else "no"


def repeat_myself(task: int, repeat: int) -> str:
    """Say the same to all siblings."""
    return f"stand {task}"


def make_run(rows: Sequence[Row], *, config: Mapping[str, Any] = CONFIG, **parts: Any) -> RunRecord:
    """Return a run; its last episodes are good ones if none are given."""
    return RunRecord(name="run", rows=rows, config=config, **parts)


def configure(**sections: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the usual configuration with other values in some sections."""
    return {**CONFIG, **{name: {**CONFIG.get(name, {}), **values} for name, values in sections.items()}}


def without_signal(steps: int, reward: float) -> list[Row]:
    """Return steps in which all rewards are one number."""
    return write_rows(
        steps, reward, reward__std=0, signal__tokens_nonzero_advantage=0, signal__groups_without_signal=8, success__rate=reward
    )


def fail_with(reason: str, detail: str = "KeyError: 'price'") -> Callable[[Episode], Episode]:
    """Let an episode end in a failure."""
    return lambda one: evolve(
        one, output=None, verdict=None, failures=(Failure(reason=reason, detail=detail, place="agent.py:7"),)
    )


def leave_unjudged(one: Episode) -> Episode:
    """Let the judge fail."""
    return evolve(one, verdict=Unjudged(reason="judge_error", detail="KeyError: 'steps'", place="judge.py:3 in score"))


def mask_all(one: Episode) -> Episode:
    """Leave no token to train."""
    masked = tuple(evolve(sample, mask=np.zeros_like(sample.mask)) for sample in one.samples)
    return evolve(one, samples=masked, untrained={"constrained": 3})


def succeed_by(success: Callable[[Episode], bool]) -> Callable[[Episode], Episode]:
    """Let an episode succeed or not, whatever its reward."""
    return lambda one: one.with_verdict(Verdict(one.reward or 0.0, success(one)))


def malform(share: int) -> Callable[[Episode], Episode]:
    """Make the call of one of so many episodes unreadable, and those of the others good ones."""

    def change(one: Episode) -> Episode:
        good = {"function": {"name": "f", "arguments": str(one.repeat)}}
        broken = (one.repeat + int(one.task.task_id[-1])) % share == 0
        reply = {"content": "<tool_call>{", "malformed_tool_call": 1} if broken else {"tool_calls": [good]}
        return evolve(one, calls=tuple(evolve(call, reply=reply) for call in one.calls))

    return change


def decode_letters(ids: Sequence[int]) -> str:
    """Decode ids that are letters."""
    return "".join(map(chr, ids))


def spell(text: str) -> Any:
    """Return letters as ids."""
    return np.array([ord(letter) for letter in text], dtype=np.int32)


def ask(text: str, *, shown: str, tool: str = "") -> Mapping[str, Any]:
    """Return what a call was asked, and what of it the prompt shows."""
    tools = ({"type": "function", "function": {"name": tool}},) if tool else ()
    return {"messages": ({"role": "system", "content": text},), "prompt_ids": spell(shown), "tools": tools}


def use_ids(count: int) -> Any:
    """Return sampled ids."""
    return np.arange(count, dtype=np.int32)


Made = Callable[[], RunRecord]
late = write_rows(4, 0.4)

SICK: Mapping[str, Made] = {
    "failing_episodes": lambda: make_run(without_signal(4, 0.0), late=play(4, differ, change=fail_with("workflow_error"))),
    "failing_judge": lambda: make_run(without_signal(4, 0.0), late=play(4, differ, change=leave_unjudged)),
    "hidden_prompt": lambda: make_run(
        late, late=play(4, differ, **ask("Answer with one word.", shown="user: tall?")), decode=decode_letters
    ),
    "hidden_tools": lambda: make_run(
        late, late=play(4, differ, **ask("Look it up.", shown="Look it up.", tool="lookup")), decode=decode_letters
    ),
    "mismatch": lambda: make_run(write_rows(8, rise(8), mismatch__exp_abs_mean=1.6), late=play(8, differ)),
    "stale_samples": lambda: make_run(write_rows(8, rise(8), staleness__mean=3.5, staleness__max=6), late=play(8, differ)),
    "untrained_tokens": lambda: make_run(without_signal(4, 0.5), late=play(4, differ, change=mask_all)),
    "large_steps": lambda: make_run(
        write_rows(6, [0.4, 0.1, 0, 0, 0, 0], update__relative=0.3, kl__mean=2.0), late=play(6, differ, lambda t, r: 0.0)
    ),
    "collapse": lambda: make_run(
        write_rows(9, -0.1, signal__groups_without_signal=[1, 2, 3, 5, 6, 7, 8, 8, 8], entropy__mean=rise(9, 0.4, 0.05)),
        early=play(1, differ),
        late=play(9, repeat_myself, lambda task, repeat: float(task % 2)),
    ),
    "no_variety": lambda: make_run(
        write_rows(4, 0.5, signal__groups_without_signal=8), late=play(4, repeat_myself, lambda task, repeat: float(task % 2))
    ),
    "unrelated_reward": lambda: make_run(
        write_rows(8, 0.5, success__rate=0.25), late=play(8, differ, change=succeed_by(lambda one: one.repeat < 2))
    ),
    "lost_success": lambda: make_run(
        [*write_rows(12, 0.5), write_success(0, 0.51, 0.1), write_success(12, 0.47, 0.0)], late=play(12, differ)
    ),
    "bought_reward": lambda: make_run(write_rows(12, rise(12), success__rate=rise(12, 0.6, 0.1)), late=play(12, differ)),
    "same_text": lambda: make_run(
        write_rows(12, rise(12, 0.1, 0.6)),
        late=play(12, praise),
    ),
    "all_solved": lambda: make_run(
        without_signal(5, 1.0), late=play(5, differ, lambda t, r: 1.0, change=succeed_by(lambda one: True))
    ),
    "cut_answers": lambda: make_run(
        late, late=play(4, differ, finish_reason="length", output_ids=use_ids(64), logprobs=np.zeros(64, np.float32))
    ),
    "constant_judge": lambda: make_run(without_signal(4, 0.7), late=play(4, differ, lambda task, repeat: 0.7)),
    "malformed_calls": lambda: make_run(late, early=play(1, differ, change=malform(8)), late=play(4, differ, change=malform(2))),
    "all_zero": lambda: make_run(without_signal(5, 0.0), late=play(5, differ, lambda task, repeat: 0.0)),
    "equal_siblings": lambda: make_run(
        write_rows(5, 0.5, signal__groups_without_signal=8), late=play(5, differ, lambda task, repeat: float(task % 2))
    ),
    "overfitting": lambda: make_run(
        [*write_rows(20, rise(20)), write_validation(0, 0.4), write_validation(10, 0.5), write_validation(20, 0.2)],
        late=play(20, differ),
    ),
    "falling_validation": lambda: make_run(
        [*write_rows(12, rise(12, 0.29, 0.3)), write_validation(0, 0.4), write_validation(12, 0.15)], late=play(12, differ)
    ),
    "strong_divergence": lambda: make_run(
        write_rows(20, rise(20, 0.2, 0.21), kl__mean=0.004, update__relative=5e-4),
        config=configure(trainer_common={"kl_loss_coef": 5.0}),
        late=play(20, differ),
    ),
    "small_steps": lambda: make_run(
        write_rows(20, rise(20, 0.2, 0.21), kl__mean=1e-7, update__relative=2e-7), late=play(20, differ)
    ),
    "falling_reward": lambda: make_run(write_rows(20, rise(20, 0.6, 0.3)), late=play(20, differ)),
    "growing_length": lambda: make_run(
        write_rows(12, rise(12, 0.3, 0.31), tokens__generated=[1000.0 + 200 * at for at in range(12)]), late=play(12, differ)
    ),
    "flat": lambda: make_run(write_rows(30, rise(30, 0.2, 0.21)), late=play(30, differ)),
}
"""By rule: a run that has the symptom."""

GOOD = write_rows(20, rise(20), success__rate=rise(20))

HEALTHY: Mapping[str, Made] = {
    "failing_episodes": lambda: make_run(
        GOOD, late=play(20, differ, change=lambda one: fail_with("workflow_error")(one) if one.repeat == 0 else one)
    ),
    "failing_judge": lambda: make_run(
        GOOD, late=play(20, differ, change=lambda one: leave_unjudged(one) if one.id.endswith("task-1/0") else one)
    ),
    "hidden_prompt": lambda: make_run(
        GOOD, late=play(20, differ, **ask("Answer with one word.", shown="system:Answer  with one word.")), decode=decode_letters
    ),
    "hidden_tools": lambda: make_run(
        GOOD, late=play(20, differ, **ask("Look.", shown='Look. {"name": "lookup"}', tool="lookup")), decode=decode_letters
    ),
    "mismatch": lambda: make_run(write_rows(8, rise(8), mismatch__exp_abs_mean=1.6, staleness__mean=1), late=play(8, differ)),
    "stale_samples": lambda: make_run(write_rows(8, rise(8), staleness__mean=1, staleness__max=1), late=play(8, differ)),
    "untrained_tokens": lambda: make_run(GOOD, late=play(20, differ, change=lambda one: one if one.repeat else mask_all(one))),
    "large_steps": lambda: make_run(write_rows(8, rise(8), update__relative=0.2, kl__mean=0.9), late=play(8, differ)),
    "collapse": lambda: make_run(
        write_rows(9, rise(9, 0.3, 0.99), success__rate=rise(9, 0.3, 0.99), entropy__mean=rise(9, 0.4, 0.02)),
        early=play(1, differ),
        late=play(9, repeat_myself, lambda task, repeat: 1.0),
    ),
    "no_variety": lambda: make_run(GOOD, early=play(1, differ), late=play(20, lambda task, repeat: f"{task} {repeat // 2}")),
    "unrelated_reward": lambda: make_run(GOOD, late=play(20, differ, change=succeed_by(lambda one: (one.reward or 0) > 0.5))),
    "lost_success": lambda: make_run([*GOOD, write_success(0, 0.5, 0.1), write_success(20, 0.8, 0.07)], late=play(20, differ)),
    "bought_reward": lambda: make_run(
        write_rows(12, rise(12), success__rate=rise(12), reward__brevity=rise(12, 0.9, 0.88)), late=play(12, differ)
    ),
    "same_text": lambda: make_run(GOOD, late=play(20, lambda task, repeat: ("positive", "negative")[(task + repeat) % 2])),
    "all_solved": lambda: make_run(
        [*write_rows(16, rise(16, 0.2, 0.99), success__rate=rise(16, 0.2, 0.99)), *_later(without_signal(4, 1.0), 16)],
        late=play(20, differ, lambda t, r: 1.0, change=succeed_by(lambda one: True)),
    ),
    "cut_answers": lambda: make_run(
        GOOD, late=[*play(20, differ), *play(20, differ, tasks=1, finish_reason="length", output_ids=use_ids(64))]
    ),
    "constant_judge": lambda: make_run(GOOD, late=play(20, differ, lambda task, repeat: 0.7 if repeat else 0.6)),
    "malformed_calls": lambda: make_run(GOOD, early=play(1, differ, change=malform(2)), late=play(20, differ, change=malform(9))),
    "all_zero": lambda: make_run(
        write_rows(5, [0, 0, 0, 0, 0.01], reward__std=0.1), late=play(5, differ, lambda task, repeat: float(task == repeat == 0))
    ),
    "equal_siblings": lambda: make_run(write_rows(5, 0.5, signal__groups_without_signal=5), late=play(5, differ)),
    "overfitting": lambda: make_run(
        [*write_rows(20, rise(20)), write_validation(0, 0.2), write_validation(20, 0.7)], late=play(20, differ)
    ),
    "falling_validation": lambda: make_run(
        [*write_rows(12, rise(12, 0.3, 0.35)), write_validation(0, 0.4), write_validation(12, 0.37)], late=play(12, differ)
    ),
    "strong_divergence": lambda: make_run(
        write_rows(20, rise(20), kl__mean=0.004), config=configure(trainer_common={"kl_loss_coef": 5.0}), late=play(20, differ)
    ),
    "small_steps": lambda: make_run(write_rows(20, rise(20, 0.2, 0.5), kl__mean=1e-4), late=play(20, differ)),
    "falling_reward": lambda: make_run(write_rows(20, rise(20, 0.95, 0.92)), late=play(20, differ)),
    "growing_length": lambda: make_run(
        write_rows(12, rise(12), tokens__generated=[1000.0 + 200 * at for at in range(12)]), late=play(12, differ)
    ),
    "flat": lambda: make_run(write_rows(30, rise(30, 0.2, 0.45)), late=play(30, differ)),
}
"""By rule: a run that comes near the symptom, and in which nothing stands out."""


def _later(rows: Sequence[Row], by: int) -> list[Row]:
    return [{**row, "step": row["step"] + by} for row in rows]


def list_calls(episodes: Sequence[Episode]) -> list[Call]:
    """Return the calls of episodes."""
    return [call for one in episodes for call in one.calls]
