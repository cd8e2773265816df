"""A finished run with everything that the viewer shows: groups, agents, branches, failures, findings, components, a replay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recorded_conversation import Conversation, make_episode, tokenizer, tool_call
from token_record import write_token_record

from astuner.contract.schema import Episode, Failure, Finding, Group, Task, Unjudged, Verdict, WorkflowOutput
from astuner.episodes.builtin.loggers.jsonl_logger import JsonlLogger
from astuner.episodes.judging.advantages import compute_advantages
from astuner.episodes.judging.estimators import Grpo
from astuner.episodes.rollout.metrics import compute_rollout_metrics, compute_validation_metrics
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import EpisodeFiles

STEPS = 4
SIBLINGS = 4
TOOLS = ({"type": "function", "function": {"name": "calculator", "description": "Works out an expression.", "parameters": {}}},)
SYSTEM = {"role": "system", "content": "You are a careful shopkeeper. Use the calculator."}

PRICES = Task("How much are 12 boxes at 7 each?", task_id="prices", metadata={"answer": "84", "level": 2})
DEBATE = Task("Is a whale a fish?", task_id="animals/whale #1", metadata={"answer": "no"})
DAMAGED = Task('What does "100%" mean?', task_id='100% "sure" or not?', metadata={"answer": "all"})
TASKS = (PRICES, DEBATE, DAMAGED)

TRACEBACK = (
    'Traceback (most recent call last):\n  File "agent.py", line 12, in solve\n    price = prices["box"]\nKeyError: \'box\'\n'
)
CONFIG = """astuner:
  project_name: shop
  experiment_name: {name}
  backbone: local
  seed: 7
  # How far the weights may move.
  trainer_common:
    optim: {{lr: {lr}}}
"""


class RunWriter:
    """Writes a run step by step, as a training process does."""

    def __init__(self, path: Path, *, lr: float = 0.001, planned: int = STEPS) -> None:
        import yaml

        self.directory = RunDirectory(path)
        self.directory.open()
        self.directory.write_run(
            {
                "project_name": "shop",
                "experiment_name": path.name,
                "backbone": "local",
                "seed": 7,
                "versions": {"astuner-core": "0.2.0", "python": "3.11.7"},
                "plugins": [{"kind": "judge", "name": "shop", "distribution": "acme-judges", "version": "1.2.0"}],
                "git": None,
                "command": ["astuner", "run", "--conf", "shop.yaml"],
            }
        )
        given = CONFIG.format(name=path.name, lr=lr)
        resolved = yaml.safe_load(given)
        resolved["astuner"]["trainer_common"]["total_training_steps"] = planned
        resolved["astuner"]["model"] = {"path": "models/tiny-shop"}
        self.directory.write_config(given=given, resolved=yaml.safe_dump(resolved), native={})
        self.directory.write_state(status="running", step=0)
        self.store = EpisodeFiles(self.directory.episodes)
        self._metrics = JsonlLogger(self.directory.metrics)

    def write_groups(self, groups: Sequence[Group]) -> None:
        """Store the episodes and verdicts of a step."""
        for group in groups:
            for episode in group.episodes:
                self.store.add_episode(episode)
            self.store.add_verdicts(group)

    def write_step(self, step: int, groups: Sequence[Group]) -> None:
        """Store a training step with its metrics."""
        self.write_groups(groups)
        rows = compute_advantages(groups, Grpo())
        update = {"kl/mean": 0.01 * step, "entropy/mean": 0.9 - 0.1 * step, "grad/norm": 0.3, "lr": 0.001, "loss/policy": -0.1}
        times = {"time/rollout_s": 2.0, "time/update_s": 1.0, "time/step_s": 3.0, "tokens/per_s": 120.0}
        self._metrics.log(step, {**compute_rollout_metrics(groups, rows), **update, **times})
        write_token_record(self.directory.trained_tokens, step, groups)
        self.directory.write_state(step=step)

    def write_validation(self, step: int, groups: Sequence[Group]) -> None:
        """Store a validation with its metrics."""
        self.write_groups(groups)
        found = compute_validation_metrics(groups)
        self._metrics.log(step, found)
        known = self.directory.state.get("validations", {})
        value = {"metric": "val/reward/mean", "value": found["val/reward/mean"]}
        self.directory.write_state(validations={**known, str(step): value})

    def write_checkpoint(self, step: int) -> None:
        """Make a checkpoint that holds the tokenizer alone."""
        place = self.directory.checkpoint(step)
        place.mkdir(parents=True)
        tokenizer().save(str(place / "tokenizer.json"))
        self.directory.write_state(checkpoint=step)

    def close(self, status: str = "finished") -> None:
        """End the run."""
        self.directory.write_state(status=status)
        self._metrics.close()
        self.store.close()
        self.directory.close()


def write_made_up_run(path: Path, *, lr: float = 0.001, luck: int = 0) -> None:
    """Write a run of four steps; with `luck` more of its answers are right."""
    run = RunWriter(path, lr=lr)
    for step in range(STEPS + 1):
        if step:
            run.write_step(step, make_groups(step, luck=luck))
        if step % 2 == 0:
            run.write_validation(step, [price_group(step, split="validation", luck=luck)])
            if step:
                run.write_checkpoint(step)
    run.close()


def write_replay(origin: Path, name: str = "strict") -> None:
    """Write a replay of a run, in which a stricter judge calls each right answer of repeat 0 wrong."""
    directory = RunDirectory(origin / "replays" / name)
    directory.open()
    directory.write_run({"backbone": "local", "experiment_name": origin.name, "replay_of": str(origin.resolve())})
    directory.write_config(given=CONFIG.format(name=name, lr=0.001), resolved=CONFIG.format(name=name, lr=0.001), native={})
    store = EpisodeFiles(directory.episodes)
    for step in range(1, STEPS + 1):
        for group in make_groups(step):
            judged = [_judge_strictly(episode) for episode in group.episodes]
            again = Group(task=group.task, step=step, split="train", episodes=tuple(judged))
            for episode in again.episodes:
                store.add_episode(episode)
            store.add_verdicts(again)
    store.close()
    directory.write_state(status="finished")
    directory.close()


def _judge_strictly(episode: Episode) -> Episode:
    if episode.repeat or not isinstance(episode.verdict, Verdict):
        return episode
    return episode.with_verdict(Verdict(0.0, False, rationale="Right, but it does not say why."))


def say(text: str) -> dict[str, str]:
    """Return a reply of text alone."""
    return {"role": "assistant", "content": text}


def make_groups(step: int, luck: int = 0) -> list[Group]:
    """Return the groups of a training step."""
    return [price_group(step, luck=luck), debate_group(step), failing_group(step)]


def price_group(step: int, *, split: str = "train", luck: int = 0) -> Group:
    """Siblings that use a tool, with reasoning, components and a rationale; more of them are right in later steps."""
    episodes = []
    for repeat in range(SIBLINGS):
        right = repeat < step + luck
        talk = Conversation(step * 10 + repeat, version=step - 1 if step else 0)
        question = [SYSTEM, {"role": "user", "content": PRICES.main_query}]
        expression = "12 * 7" if right else f"12 + {7 + repeat}"
        called = talk.ask(
            question,
            {
                "role": "assistant",
                "content": "",
                "reasoning_content": f"Twelve boxes, seven each: I work out {expression}.",
                "tool_calls": [tool_call("calculator", f'{{"expression": "{expression}"}}')],
            },
            tools=TOOLS,
        )
        result = "84" if right else str(19 + repeat)
        talk.ask(
            [{"role": "tool", "tool_call_id": "call_1", "content": result}],
            say(f"The boxes cost {result}."),
            after=called,
        )
        finding = {"wrong_toolcall": (Finding(call=0, evidence="an addition where prices multiply"),)} if repeat == 3 else {}
        episodes.append(
            make_episode(
                talk,
                PRICES,
                step=step,
                repeat=repeat,
                split=split,
                output=WorkflowOutput(metadata={"final_answer": result}, log_metrics={"tool_calls": 1.0}),
                verdict=Verdict(
                    1.0 if right else 0.1,
                    right,
                    components={"answer": float(right), "format": 1.0 - repeat / 10},
                    rationale="The sum is right." if right else f"{result} is not 84: the price was added, not multiplied.",
                ),
                findings=finding if not right else {},
            )
        )
    return Group(task=PRICES, step=step, split=split, episodes=tuple(episodes))  # type: ignore[arg-type]


def debate_group(step: int) -> Group:
    """Siblings of two agents; the critic's rewards differ, the solver asks again (a branch), a helper is not trained."""
    episodes = []
    for repeat in range(SIBLINGS):
        talk = Conversation(step * 100 + repeat, version=step - 1)
        question = [{"role": "user", "content": DEBATE.main_query}]
        first = talk.ask(question, say("Yes, whales are fish."))
        claim = f"No: a whale is a mammal, reason {repeat}."
        again = talk.ask(question, say(claim), after=first, again=True)
        talk.ask(
            [{"role": "user", "content": f"Criticise: {claim}"}],
            say(f"It names no evidence, point {repeat}."),
            agent="critic",
        )
        talk.ask(
            [{"role": "user", "content": "Sum it up."}],
            say("Whales are mammals."),
            agent="scribe",
            untrained="frozen_agent",
        )
        talk.ask([{"role": "user", "content": "Now say why."}], say("They breathe air."), after=again)
        reward = (repeat + step) % 3 / 2
        verdict = Verdict(reward, reward > 0.5, rewards={"critic": 1.0 - reward}, rationale=f"Persuades {repeat} of 3 readers.")
        episodes.append(make_episode(talk, DEBATE, step=step, repeat=repeat, output=WorkflowOutput(), verdict=verdict))
    return Group(task=DEBATE, step=step, split="train", episodes=tuple(episodes))


def failing_group(step: int) -> Group:
    """Siblings of which one fails with a traceback, one times out after a retry, one has no verdict, and one is right."""
    episodes = []
    for repeat in range(SIBLINGS):
        talk = Conversation(step * 1000 + repeat, version=step - 1)
        asked = [{"role": "user", "content": DAMAGED.main_query}]
        cut = repeat == 1
        talk.ask(asked, say("All of it."), finish_reason="length" if cut else "stop")
        failures: tuple[Failure, ...] = ()
        if repeat == 0:
            place = "agent.py:12 in solve"
            failures = (Failure(reason="workflow_error", detail="KeyError: 'box'", place=place, traceback=TRACEBACK),)
        elif repeat == 1:
            lost = Failure(reason="engine_lost", detail="connection refused", retried=True, calls=1, tokens=9)
            failures = (lost, Failure(reason="timeout", detail="600 s", attempt=1, calls=1))
        verdict: Verdict | Unjudged | None = None
        if repeat == 2:
            verdict = Unjudged(
                reason="judge_error", detail="ValueError: no number", place="judge.py:3 in score", traceback=TRACEBACK
            )
        elif repeat == 3:
            verdict = Verdict(1.0, True)
        output = None if repeat < 2 else WorkflowOutput(metadata={"final_answer": "all"})
        episodes.append(make_episode(talk, DAMAGED, step=step, repeat=repeat, output=output, failures=failures, verdict=verdict))
    return Group(task=DAMAGED, step=step, split="train", episodes=tuple(episodes))
