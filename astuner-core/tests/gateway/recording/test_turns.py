"""The call of an answer in one piece runs in the task that waits for the answer, and ends with a record however it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from slow_engine import Slow

from astuner.model.gateway.api_keys import Caller
from astuner.model.gateway.recording.choice_events import Done
from astuner.model.gateway.wire_apis import ApiError, chat_request
from astuner_devkit.waiting import until_so

ASKED = {"messages": [{"role": "user", "content": "hi"}]}


def begin(stage: Any, **fields: Any) -> Any:
    return stage.recorder.begin(chat_request({**ASKED, **fields}), Caller("s", "agent", "agent"))


@pytest.mark.asyncio
async def test_a_call_that_nobody_waits_for_is_recorded_as_aborted(serving: Any) -> None:
    async with serving() as stage:
        turn = begin(stage)
        await turn.cancel()
        assert [call.untrained for call in stage.recorder.calls] == ["aborted"]
        assert turn.unanswered
        assert isinstance((await turn.wait()).result, ApiError)


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["cancel", "leave"])
async def test_a_call_that_is_stopped_leaves_the_task_that_waits(serving: Any, way: str) -> None:
    engine = Slow()
    async with serving(engine=engine) as stage:
        turn = begin(stage)
        waiting = asyncio.create_task(turn.wait())
        await until_so(lambda: engine.under_way)
        turn.leave()
        if way == "cancel":
            await turn.cancel()
            assert [call.untrained for call in stage.recorder.calls] == ["aborted"]
        assert await waiting is None
        assert (engine.under_way, waiting.cancelling()) == (0, 0)
        assert isinstance(await turn.wait(), Done)


@pytest.mark.asyncio
@pytest.mark.parametrize("also", [False, True])
async def test_a_task_that_is_cancelled_while_it_waits_is(serving: Any, also: bool) -> None:
    engine = Slow()
    async with serving(engine=engine) as stage:
        turn = begin(stage)
        waiting = asyncio.create_task(turn.wait())
        await until_so(lambda: engine.under_way)
        waiting.cancel()
        if also:
            await turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert engine.under_way == 0
        assert [call.untrained for call in stage.recorder.calls] == ["aborted"]


@pytest.mark.asyncio
@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"n": 3}])
async def test_a_turn_is_over_when_its_calls_are(serving: Any, fields: dict[str, Any]) -> None:
    async with serving("yes") as stage:
        turn = begin(stage, **fields)
        assert stage.recorder._turns == {turn}
        while not isinstance(await turn.wait(), Done):
            pass
        await until_so(lambda: not stage.recorder._turns)
        assert not turn.unanswered
        assert {call.finish_reason for call in stage.recorder.calls} == {"stop"}
