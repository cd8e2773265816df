"""Episodes in which the environment leads, over a real gateway and a scripted engine.

One file, long as it is: a small test for each way in which such an episode may go or end.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from astuner.contract.errors import ConfigError
from astuner.contract.protocols import Judge, TrackerTraits, Workflow
from astuner.contract.schema import Capabilities, Verdict, WorkflowOutput
from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine
from astuner.episodes.builtin.trackers.auto_context import AutoContextTracker
from astuner.episodes.builtin.trackers.linear import LinearTracker
from astuner.episodes.builtin.trackers.linear_think import LinearThinkTracker
from astuner.episodes.builtin.trackers.sliding_window import SlidingWindowTracker
from astuner.episodes.builtin.trackers.timeline import TimelineTracker
from astuner.model.rendering.template_renderer import TemplateRenderer
from astuner.settings.config.components import ContextTracker
from astuner.settings.config.env_variables import Environment

TRACKERS = [TimelineTracker, LinearTracker, SlidingWindowTracker, AutoContextTracker, LinearThinkTracker]


def test_an_episode_goes_on_until_the_environment_is_done(games: Any):
    episode = games.play("Guess", "5", "9", "7", "1")
    assert games.log("Guess") == ["reset", "step 5", "step 9", "step 7", "evaluate", "close"]
    assert [call.reply["content"] for call in episode.calls] == ["5", "9", "7"]


def test_every_message_reward_and_info_is_kept(games: Any):
    metadata = games.play("Guess", "5", "seven", "7").output.metadata
    assert metadata == {
        "environment": games.game("Guess").name,
        "ended": "done",
        "score": 1.0,
        "final_answer": "7",
        "messages": [
            {"role": "system", "content": "You guess."},
            {"role": "user", "content": "Guess a number from 1 to 9."},
            {"role": "assistant", "content": "5"},
            {"role": "user", "content": "higher"},
            {"role": "user", "content": "1 guesses so far"},
            {"role": "assistant", "content": "seven"},
            {"role": "user", "content": "A number, please."},
            {"role": "assistant", "content": "7"},
            {"role": "user", "content": "right"},
        ],
        "rewards": [-0.25, -0.5, 1.0],
        "infos": [{"guess": 5, "is_success": False}, {"odd": True}, {"guess": 7, "is_success": True}],
    }


def test_the_model_sees_the_whole_conversation_as_one_growing_stream(games: Any):
    episode = games.play("Guess", "5", "9", "7")
    assert [call.parent for call in episode.calls] == [None, 0, 1]
    [sample] = episode.samples
    assert sample.trained == sum(len(call.output_ids) for call in episode.calls)


def test_the_score_is_the_reward_where_nobody_judges(games: Any):
    episode = games.play("Guess", "5", "7")
    assert (episode.reward, episode.is_success) == (1.0, True)


def test_a_judge_wins_and_finds_everything_in_the_metadata(games: Any):
    class Sums(Judge):
        async def judge(self, group):
            return [Verdict(sum(e.output.metadata["rewards"])) for e in group.episodes if e.completed]

    games.judge = Sums()
    assert games.play("Guess", "5", "7").reward == 0.75


def test_metrics_of_the_loop_are_logged(games: Any):
    games.config = {"environment": Environment(env_action_preference="box")}
    assert games.play("Guess", "5", r"\boxed{7}").output.log_metrics == {
        "steps": 2.0,
        "reward_sum": 0.75,
        "score": 1.0,
        "out_of_steps": 0.0,
        "context_full": 0.0,
        "actions_not_found": 1.0,
        "messages_clipped": 0.0,
        "messages_mended": 0.0,
        "infos_left_out": 0.0,
    }


def test_the_last_step_is_the_last(games: Any):
    games.max_steps = 2
    episode = games.play("Guess", "1")
    assert (episode.output.metadata["ended"], len(episode.calls)) == ("max_steps", 2)
    assert (episode.reward, episode.is_success) == (0.0, False)


@pytest.mark.parametrize(
    ("preference", "reply"), [("code", "So:\n```python\n7\n```"), ("box", r"It is \boxed{7}."), ("text", "7")]
)
def test_an_action_is_read_off_the_answer_as_preferred(games: Any, preference: str, reply: str):
    games.config = {"environment": Environment(env_action_preference=preference)}
    episode = games.play("Guess", reply)
    assert games.log("Guess")[1] == "step 7"
    assert episode.output.metadata["messages"][2]["content"] == reply


@pytest.mark.parametrize("preference", ["code", "box", "text"])
def test_reasoning_is_recorded_and_not_done(games: Any, preference: str):
    games.config = {"environment": Environment(env_action_preference=preference)}
    games.renderer_of_run = TemplateRenderer(games.renderer.tokenizer, reasoning="keep")
    reply = "<think>```\n6\n``` \\boxed{6}</think>7"
    episode = games.play("Guess", reply)
    assert games.log("Guess")[1] == "step 7"
    assert episode.output.metadata["messages"][2]["content"] == reply
    assert episode.output.metadata["final_answer"] == "7"


def test_a_full_context_ends_the_episode_with_what_there_is(games: Any):
    games.options = {"max_model_len": 900}
    episode = games.play("Talks", "x" * 10)
    assert (episode.completed, episode.output.metadata["ended"]) == (True, "context_full")
    assert episode.reward == 0.0
    assert 1 <= len(episode.calls) < games.max_steps


def test_a_context_that_is_full_at_once_is_a_failure(games: Any):
    games.options = {"max_model_len": 8}
    assert games.play("Guess").failures[-1].reason == "context_full"


def test_long_messages_of_a_step_are_cut_in_the_conversation(games: Any):
    games.config = {"context_tracker": ContextTracker(max_env_len=90)}
    episode = games.play("Talks", "hm")
    said = [message["content"] for message in episode.output.metadata["messages"] if message["role"] == "user"]
    assert {games.renderer.encode(text).size <= 90 for text in said[1:]} == {True}
    assert {text[:4] for text in said[1:]} == {"blah"}
    assert episode.output.log_metrics["messages_clipped"] == games.max_steps


@pytest.mark.parametrize("tracker", TRACKERS)
def test_every_tracker_plays_and_trains_what_was_sampled(games: Any, tracker: type):
    games.make_tracker = tracker
    games.config = {"context_tracker": ContextTracker(max_env_len=60)}
    games.options = {"max_model_len": 700}
    games.data = {"max_prompt_length": 200, "max_response_length": 500}
    episode = games.play("Talks", "<think>let me see</think>11", "12", "13")
    assert episode.failures == ()
    sampled = sum(len(call.output_ids) for call in episode.calls)
    assert sum(sample.trained for sample in episode.samples) + sum(episode.untrained.values()) == sampled
    assert sum(sample.trained for sample in episode.samples) > 0


class Forgets(TimelineTracker):
    """Shows the first message and the last, and acts in capitals."""

    traits = TrackerTraits(manages_context=True)
    rooms: Any = None

    async def view(self, messages, room):
        type(self).rooms = [*(type(self).rooms or []), (room.max_prompt_tokens, await room.count_tokens(messages))]
        return [messages[0], *messages[-1:]] if len(messages) > 2 else messages

    def action(self, reply):
        return {**reply, "content": reply["content"].upper()}


def test_a_tracker_decides_what_is_shown_and_what_is_done(games: Any):
    games.make_tracker = Forgets
    episode = games.play("Guess", "five", "7")
    assert games.log("Guess")[1] == "step FIVE"
    assert [message["content"] for message in episode.calls[1].messages] == ["You guess.", "A number, please."]


def test_what_a_view_began_anew_may_be_longer_than_a_first_prompt(games: Any):
    class Repeats(TimelineTracker):
        traits = TrackerTraits(manages_context=True)

        async def view(self, messages, room):
            return messages if len(messages) == 2 else [{"role": "user", "content": "word " * 60}]

        def action(self, reply):
            return reply

    games.make_tracker = Repeats
    games.data = {"max_prompt_length": 60, "max_response_length": 200}
    episode = games.play("Guess", "5", "7")
    assert len(episode.calls[1].prompt_ids) > 60
    assert (episode.failures, len(episode.calls)) == ((), 2)


def test_a_first_view_that_is_too_long_is_a_failure(games: Any):
    games.make_tracker = Forgets
    games.data = {"max_prompt_length": 5}
    failure = games.play("Guess").failures[-1]
    assert (failure.reason, "more than data.max_prompt_length = 5" in failure.detail) == ("context_full", True)


def test_a_tracker_is_told_its_room_in_tokens_of_the_template(games: Any):
    class Measures(Forgets):
        rooms = None

    games.make_tracker = Measures
    games.options = {"max_model_len": 1000, "max_response_length_in_one_turn": 100}
    games.data = {"max_prompt_length": 300, "max_response_length": 500}
    episode = games.play("Guess", "5", "7")
    (first, tokens), (later, _) = Measures.rooms
    assert (first, tokens) == (300, len(episode.calls[0].prompt_ids))
    # The second view is the shorter one, but it was not known yet.
    assert later == tokens + 500 - 100


def test_what_a_tracker_asks_the_model_is_recorded_and_no_step(games: Any):
    class Asks(TimelineTracker):
        traits = TrackerTraits(manages_context=True)

        async def view(self, messages, room):
            self.summary = await room.ask_model([{"role": "user", "content": "Sum up."}], 20)
            return messages

        def action(self, reply):
            return reply

    games.make_tracker = Asks
    games.max_steps = 1
    episode = games.play("Guess", "short", "7")
    assert ([call.reply["content"] for call in episode.calls], episode.output.log_metrics["steps"]) == (["short", "7"], 1.0)
    assert len(episode.samples) == 2


def test_tools_of_the_environment_are_offered_and_their_calls_are_actions(games: Any):
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>'
    games.config = {"environment": Environment(env_action_preference="code")}
    episode = games.play("Calculator", call, "```\n3\n```")
    assert games.log("Calculator") == ["reset", "step", "add", "step", "evaluate", "close"]
    assert [len(call.tools) for call in episode.calls] == [1, 0]
    assert (episode.reward, episode.output.log_metrics["actions_not_found"]) == (1.0, 0.0)
    assert len(episode.samples) == 1


FAILURES = [
    ("FailsToBeMade", "environment_error", "could not be made: OSError: no server", []),
    ("FailsInReset", "environment_error", "reset raised OSError: no world (environment_games.py:", ["close"]),
    ("SaysNothing", "environment_error", "reset returned no message", ["close"]),
    ("ReturnsText", "environment_error", "reset gave 'Guess!'; core needs a list of messages", ["close"]),
    ("LosesItsServer", "environment_error", "step raised OSError: the game is lost", ["reset", "close"]),
    ("FailsInStep", "workflow_error", "step raised KeyError: 'door' (environment_games.py:", ["reset", "close"]),
    ("FailsInEvaluate", "workflow_error", "evaluate raised ValueError: no score", ["reset", "step 7", "close"]),
    ("ReturnsThree", "workflow_error", "core needs (messages, reward, done, info)", ["reset", "close"]),
    ("NoReward", "workflow_error", "step gave None; core needs a finite number", ["reset", "close"]),
    ("NanScore", "workflow_error", "evaluate gave nan; core needs a finite number", ["reset", "step 7", "close"]),
]


@pytest.mark.parametrize(("name", "reason", "words", "log"), FAILURES)
def test_a_failing_environment_ends_its_episode_with_its_name_and_is_closed(
    games: Any, name: str, reason: str, words: str, log: list[str]
):
    failure = games.play(name, "7").failures[-1]
    assert (failure.reason, words in failure.detail) == (reason, True), failure.detail
    assert failure.detail.startswith("environment '")
    assert games.log(name) == log


def test_an_environment_whose_methods_cannot_be_awaited_is_refused_before_any_episode(games: Any):
    with pytest.raises(ConfigError, match=r"reset \(environment_games.py:\d+\) must be awaited: write `async def`"):
        games.play("Blocking", "7")


@pytest.mark.parametrize("workflow", ["the environment leads", "a workflow plays"])
@pytest.mark.parametrize(("name", "attempts"), [("FailsInStep", 1), ("LosesItsServer", 3), ("FailsInReset", 3)])
def test_only_what_no_action_can_cause_is_played_again(games: Any, name: str, attempts: int, workflow: str):
    games.workflow = Plays if workflow == "a workflow plays" else None
    games.options = {"max_retries": 2}
    assert len(games.play(name, "eight", "7", "7").failures) == attempts


def test_each_attempt_has_an_environment_of_its_own(games: Any):
    games.options = {"max_retries": 1}
    episode = games.play("LosesItsServer")
    assert [failure.retried for failure in episode.failures] == [True, False]
    assert games.log("LosesItsServer") == ["reset", "close", "reset", "close"]


def test_an_environment_that_hangs_ends_with_the_time_limit_and_is_closed(games: Any):
    games.options = {"episode_timeout_s": 3.0}
    assert games.play("Hangs").failures[-1].reason == "timeout"
    assert games.log("Hangs") == ["reset", "hanging", "close"]


@pytest.mark.parametrize("isolation", ["async", "thread"])
def test_an_interrupted_episode_closes_its_environment(games: Any, isolation: str):
    games.options = {"isolation": isolation}
    with pytest.raises(asyncio.CancelledError):
        games.play("Hangs", stop_at="hanging")
    assert games.log("Hangs") == ["reset", "hanging", "close"]


@pytest.mark.parametrize("isolation", ["async", "thread"])
def test_an_environment_is_closed_after_its_last_call(games: Any, isolation: str):
    games.options = {"isolation": isolation}
    with pytest.raises(asyncio.CancelledError):
        games.play("CleansUp", stop_at="hanging")
    assert games.log("CleansUp") == ["reset", "hanging", "cleaned up", "close"]


@pytest.mark.parametrize("isolation", ["async", "thread"])
def test_an_interruption_does_not_interrupt_closing(games: Any, isolation: str):
    games.options = {"isolation": isolation}
    with pytest.raises(asyncio.CancelledError):
        games.play("ClosesSlowly", "7", stop_at="close")
    assert games.log("ClosesSlowly")[-2:] == ["close", "closed"]


def test_an_environment_that_cannot_be_closed_is_told_and_its_episode_is_good(games: Any):
    assert games.play("FailsInClose", "7").reward == 1.0
    [said] = [text.partition(" could not be closed: ")[2] for text in games.told]
    assert said.startswith("OSError: stuck (environment_games.py:")


ENDINGS = [("exits", "SystemExit"), ("cancels", "CancelledError"), ("interrupts", "KeyboardInterrupt")]


@pytest.mark.parametrize("isolation", ["async", "thread"])
@pytest.mark.parametrize("workflow", ["the environment leads", "a workflow plays"])
@pytest.mark.parametrize(("what", "named"), ENDINGS)
@pytest.mark.parametrize(
    ("where", "reason"), [("being made", "environment_error"), ("reset", "environment_error"), ("step", "workflow_error")]
)
def test_whatever_an_environment_raises_ends_its_episode_alone(
    games: Any, where: str, reason: str, what: str, named: str, workflow: str, isolation: str
):
    games.workflow = Plays if workflow == "a workflow plays" else None
    games.options, games.metadata = {"isolation": isolation}, {"ends": (where, what)}
    failure = games.play("Ends", "7").failures[-1]
    assert (failure.reason, failure.detail.startswith("environment '")) == (reason, True), failure.detail
    assert named in failure.detail
    assert "environment_games.py:" in failure.detail
    assert games.log("Ends")[-1:] == ([] if where == "being made" else ["close"])


@pytest.mark.parametrize("isolation", ["async", "thread"])
@pytest.mark.parametrize(("what", "named"), ENDINGS)
def test_whatever_scoring_raises_ends_its_episode_alone(games: Any, what: str, named: str, isolation: str):
    games.options, games.metadata = {"isolation": isolation}, {"ends": ("evaluate", what)}
    failure = games.play("Ends", "7").failures[-1]
    assert failure.reason == "workflow_error"
    assert f"evaluate raised {named}" in failure.detail
    assert games.log("Ends")[-1] == "close"


@pytest.mark.parametrize("isolation", ["async", "thread"])
@pytest.mark.parametrize(("what", "named"), ENDINGS)
def test_whatever_closing_raises_is_told_and_the_episode_is_good(games: Any, what: str, named: str, isolation: str):
    games.options, games.metadata = {"isolation": isolation}, {"ends": ("close", what)}
    assert games.play("Ends", "7").reward == 1.0
    [said] = [text.partition(" could not be closed: ")[2] for text in games.told]
    assert said.startswith(named)
    assert "environment_games.py:" in said


def test_a_task_of_an_environment_that_exits_does_not_end_its_thread(games: Any):
    games.options = {"isolation": "thread"}
    assert games.play("ExitsInATask", "5", "7").reward == 1.0
    assert games.log("ExitsInATask") == ["reset", "step 5", "step 7", "evaluate", "close"]


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_whatever_a_tracker_raises_fails_its_episode_which_is_left_out(games: Any, raised: type[BaseException]):
    class Raises(TimelineTracker):
        def samples(self, calls, identity):
            raise raised

    games.make_tracker = Raises
    episode = games.play("Guess", "5", "7")
    [failure] = episode.failures
    assert failure.reason == "tracker_error"
    assert failure.detail.startswith(f"the context tracker raised {raised.__name__}")
    assert "test_environment_loop.py:" in failure.detail
    assert (episode.output, episode.verdict, episode.samples) == (None, None, ())
    assert sum(episode.untrained.values()) == sum(len(call.output_ids) for call in episode.calls) > 0
    assert games.log("Guess")[-1] == "close"


@pytest.mark.parametrize("isolation", ["async", "thread"])
def test_what_takes_too_long_to_close_is_told(games: Any, monkeypatch: pytest.MonkeyPatch, isolation: str):
    monkeypatch.setattr("astuner.episodes.rollout.environments.living_environment.CLOSE_TIMEOUT_S", 0.1)
    games.options = {"isolation": isolation}
    assert games.play("HangsInClose", "7").reward == 1.0
    assert [text.partition(" could not be closed: ")[2] for text in games.told] == ["not within 0.1 s"]


def test_what_blocks_its_thread_past_the_time_limit_is_closed_in_the_end(games: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("astuner.episodes.rollout.environments.living_environment.CLOSE_TIMEOUT_S", 0.1)
    games.options = {"isolation": "thread", "episode_timeout_s": 0.5}
    assert games.play("BlocksForLong", "7").failures[-1].reason == "timeout"
    for thread in threading.enumerate():
        if thread.name.startswith("astuner-environment"):
            thread.join(10)
    assert games.log("BlocksForLong")[-1] == "close"


@pytest.mark.parametrize("isolation", ["async", "thread"])
def test_a_heartbeat_goes_on_between_the_steps(games: Any, isolation: str):
    games.options = {"isolation": isolation}
    assert games.play("Beats", "5", "7").reward == 1.0
    assert games.log("Beats") == ["reset", "step 5", "step 7", "evaluate", "last beat", "close"]


def test_in_a_thread_of_its_own_an_environment_may_block(games: Any):
    games.options = {"isolation": "thread"}

    class Watches(Judge):
        """Sees the environment too, from the loop."""

        async def observe(self, episode, environment):
            return {"score": await environment.evaluate(), "secret": environment.secret}

        async def judge(self, group):
            return [Verdict(e.observations["score"]) for e in group.episodes]

    games.judge = Watches()
    episode = games.play("Blocks", "5", "7")
    assert (episode.reward, episode.observations) == (1.0, {"score": 1.0, "secret": 7})
    assert games.log("Blocks") == ["reset", "step 5", "step 7", "evaluate", "close"]
    assert threading.get_ident() not in games.threads("Blocks")


def test_infos_are_kept_as_json_and_the_huge_ones_counted(games: Any):
    small = games.play("OddInfo", "small").output
    assert small.metadata["infos"] == [{"seen": [1], "big": ""}]
    big = games.play("OddInfo", "big").output
    assert big.metadata["infos"][0]["left_out"].endswith("characters")
    assert big.log_metrics["infos_left_out"] == 1.0


def test_numpys_scalars_and_broken_text_of_an_environment_become_plain(games: Any):
    output = games.play("Scientific", "7").output
    assert output.metadata["messages"][0] == {"role": "user", "content": "Guess \ufffd", "level": 3}
    assert (output.metadata["rewards"], output.metadata["infos"]) == ([0.5], [{"p": 0.25, "at": "2026-01-02"}])
    assert (output.reward, output.log_metrics["messages_mended"]) == (0.75, 1.0)


def test_options_are_structured_and_given_after_the_task(games: Any):
    games.values = {"highest": 20}
    episode = games.play("WithOptions", "7")
    assert episode.output.metadata["messages"][0]["content"] == "Guess a number from 1 to 20."


def test_an_environment_may_know_its_run(games: Any):
    assert games.play("KnowsTheRun", "7").output.metadata["messages"][0]["content"] == "A run called experiment."


class Speaks(ScriptedEngine):
    """Answers chat requests, and knows no token ids."""

    capabilities = Capabilities(token_ids=False, logprobs=False)  # type: ignore[assignment]

    async def chat(self, body: Any) -> Any:
        return {"choices": [{"message": {"content": "7"}, "finish_reason": "stop"}]}


def test_an_engine_without_token_ids_plays_too(games: Any):
    class Estimates(Forgets):
        rooms = None

    games.make_tracker, games.engine, games.renderer_of_run = Estimates, Speaks, None
    episode = games.play("Guess")
    assert (episode.reward, episode.samples) == (1.0, ())
    assert Estimates.rooms == [(3000, 18)]


class Plays(Workflow):
    """A workflow that uses its environment as it likes."""

    async def execute(self, workflow_task, tuner):
        world = workflow_task.gym_env
        if world is None:
            return WorkflowOutput(reward=-1.0)
        messages = await world.reset()
        client = tuner.as_raw_openai_sdk_client()
        reply = await client.chat.completions.create(model="m", messages=messages)
        _, reward, _, _ = await world.step({"role": "assistant", "content": reply.choices[0].message.content})
        return WorkflowOutput(reward=reward)


class Crashes(Workflow):
    async def execute(self, workflow_task, tuner):
        await plays_badly(workflow_task.gym_env)


async def plays_badly(world):
    await world.reset()
    raise RuntimeError("mine")


@pytest.mark.parametrize("isolation", ["async", "thread"])
def test_a_workflow_is_given_the_environment_of_its_task_and_the_runner_closes_it(games: Any, isolation: str):
    games.workflow = Plays
    games.options = {"isolation": isolation}
    assert games.play("Guess", "7").reward == 1.0
    assert games.log("Guess") == ["reset", "step 7", "close"]


@pytest.mark.parametrize("isolation", ["async", "thread"])
def test_a_workflow_that_crashes_has_its_environment_closed(games: Any, isolation: str):
    games.workflow = Crashes
    games.options = {"isolation": isolation}
    assert games.play("Guess").failures[-1].reason == "workflow_error"
    assert games.log("Guess") == ["reset", "close"]


@pytest.mark.parametrize("isolation", ["async", "thread"])
def test_what_an_environment_raises_to_a_workflow_is_the_environments_failure(games: Any, isolation: str):
    games.workflow = Plays
    games.options = {"isolation": isolation}
    failure = games.play("FailsInStep", "7").failures[-1]
    assert failure.reason == "workflow_error"
    assert failure.detail.startswith("environment '"), failure.detail
    assert "KeyError: 'door' (environment_games.py:" in failure.detail
    assert games.log("FailsInStep") == ["reset", "close"]


def test_a_task_without_an_environment_has_none(games: Any):
    games.workflow = Plays
    assert (games.play(None).reward, games.told) == (-1.0, [])


def test_a_judge_sees_the_environment_before_it_is_closed(games: Any):
    class Looks(Judge):
        async def observe(self, episode, environment):
            environment.note("observed")
            return {"solved": environment.solved}

        async def judge(self, group):
            return [Verdict(float(e.observations["solved"])) for e in group.episodes]

    games.workflow, games.judge = None, Looks()
    assert games.play("Guess", "7").reward == 1.0
    assert games.log("Guess")[-2:] == ["observed", "close"]
