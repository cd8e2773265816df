"""What an episode in its own thread opens is closed with it: descriptors and event loops do not grow in number."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import psutil

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask
from astuner.episodes.rollout.isolation import InThread

descriptors: list[int] = []
loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []


class Calls(Workflow):
    """Asks the model over the socket, since its loop is not the gateway's."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        descriptors.append(psutil.Process().num_fds())
        loops.append(weakref.ref(asyncio.get_running_loop()))
        client = tuner.as_raw_openai_sdk_client()
        await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "2 + 2?"}])
        return WorkflowOutput(reward=1.0)


def test_episodes_in_threads_leave_no_descriptor_and_no_event_loop(stage: Callable[..., Any]) -> None:
    made = stage(Calls, lambda prompt, request: "4", options={"isolation": "thread", "max_env_worker": 1})
    group = made.play(12)
    assert [episode.reward for episode in group.episodes] == [1.0] * 12
    # A loop is closed in its thread a moment after its episode; each leaked two descriptors and itself.
    assert max(descriptors[6:]) <= descriptors[1] + 6
    gc.collect()
    assert sum(loop() is not None for loop in loops) <= 1


def test_an_episode_whose_time_has_passed_is_not_played_later() -> None:
    played: list[str] = []
    release = threading.Event()

    class Plays(Workflow):
        async def execute(self, workflow_task: Any, tuner: Any) -> Any:
            if workflow_task == "blocks":
                release.wait(20)
            played.append(workflow_task)
            return WorkflowOutput()

    async def play() -> None:
        executor = InThread(Plays)
        blocked = asyncio.ensure_future(executor.run("blocks", None))  # type: ignore[arg-type]
        # It waits for no thread of others, so that it is played now or never.
        await executor.run("goes on", None)  # type: ignore[arg-type]
        assert played == ["goes on"]
        release.set()
        await blocked

    asyncio.run(play())
