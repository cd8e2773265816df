"""Messages and errors arrive as they were sent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from astuner.contract.errors import ConfigError, PluginError, Problem, RunFailed
from astuner.model.rendering.errors import ApiError
from astuner_rollout_workers.message_channel import StreamChannel
from astuner_rollout_workers.portable_error import PortableError


def send(home: Path, *messages: Any) -> list[Any]:
    async def converse() -> list[Any]:
        loop, heard, over = asyncio.get_running_loop(), [], asyncio.Event()
        place = f"{home}/s"
        server = await loop.create_unix_server(
            lambda: StreamChannel(lambda _, message: heard.append(message), lambda _: over.set()), place
        )
        channel = StreamChannel(lambda _, message: None, lambda _: None)
        await loop.create_unix_connection(lambda: channel, place)
        for message in messages:
            channel.send(message)
        channel.close()
        await over.wait()
        server.close()
        return heard

    return asyncio.run(converse())


def test_messages_arrive_in_order_whatever_their_size(tmp_path: Path) -> None:
    sent = [b"x" * size for size in (0, 70_000, 3, 2_000_000)]
    assert send(tmp_path, *sent) == sent


def test_nothing_is_sent_to_an_end_that_has_gone() -> None:
    StreamChannel(lambda _, message: None, lambda _: None).send("lost")


def test_an_error_keeps_its_class_and_attributes() -> None:
    found = PortableError.of(ApiError(503, "busy", code="engine_error", retry=False)).restore()
    assert isinstance(found, ApiError)
    assert (found.status, found.code, found.retry, str(found)) == (503, "engine_error", False, "busy")


def test_the_problems_of_a_configuration_arrive_one_by_one() -> None:
    found = PortableError.of(ConfigError([Problem(key="a", message="b"), Problem(message="c")])).restore()
    assert isinstance(found, ConfigError)
    assert [problem.message for problem in found.problems] == ["b", "c"]


def test_an_error_of_an_unknown_class_arrives_with_its_text() -> None:
    class Own(Exception): ...

    found = PortableError.of(Own("what happened")).restore()
    assert isinstance(found, RunFailed)
    assert str(found) == "Own: what happened"


def test_the_text_of_our_errors_is_theirs() -> None:
    assert PortableError.of(PluginError("judge 'x' failed")).text == "judge 'x' failed"
