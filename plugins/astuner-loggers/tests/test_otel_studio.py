"""What AgentScope Studio has of a run. `StandInStudio` says what it hides of the real one, which is in no package registry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tool_episodes import make_call, make_episode, make_group
from trace_servers import Answer, Posted, StandInStudio, TraceServer, serve

from astuner.contract.errors import PluginError
from astuner_devkit.run_infos import run_info
from astuner_loggers.otel.logger import OtelLogger
from astuner_loggers.otel.studio import LONGEST_TEXT

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="comes with the extra otel")

PATIENCE_S = 600.0


@pytest.fixture
def studio() -> StandInStudio:
    return StandInStudio()


@pytest.fixture
def server(studio: StandInStudio) -> Iterator[TraceServer]:
    with serve(studio.answer) as found:
        yield found


def send(directory: Path, server: TraceServer, /, *groups: Any, **options: Any) -> None:
    given = {"studio": server.address, "timeout_s": PATIENCE_S, **options}
    logger = OtelLogger.from_run(OtelLogger.Options(**given), run_info(directory))
    logger.astuner_run_started()
    logger.log_episodes(3, groups or [make_group()])
    logger.close()


def test_the_run_is_registered_first_and_done_at_the_end(studio: StandInStudio, server: TraceServer, tmp_path: Path) -> None:
    send(tmp_path, server)
    assert server.posted[0].path == "/trpc/registerRun"
    assert studio.statuses == ["running", "done"]
    ((identity, run),) = studio.runs.items()
    assert (run["project"], run["name"]) == ("project", "experiment")
    assert {span["attributes"]["gen_ai"]["conversation"]["id"] for span in studio.spans.values()} == {identity}


def test_studio_keeps_every_attribute_of_every_span(studio: StandInStudio, server: TraceServer, tmp_path: Path) -> None:
    send(tmp_path, server)
    assert len(studio.spans) == 12
    root = next(span["attributes"] for span in studio.spans.values() if span["attributes"]["astuner"].get("reward") == 0.0)
    assert root["gen_ai"]["operation"]["name"] == "invoke_agent"
    assert root["astuner"]["findings"] == [{"detector": "nonsense", "call": 1, "evidence": "gibberish"}]
    chat = next(span["attributes"] for span in studio.spans.values() if span["name"].startswith("chat"))
    assert chat["gen_ai"]["usage"] == {"input_tokens": 2, "output_tokens": 3}
    assert chat["gen_ai"]["input"]["messages"][1]["parts"] == [{"type": "text", "content": "What is 2 + 2?"}]


def test_messages_of_an_episode_are_in_order_with_its_tools(studio: StandInStudio, server: TraceServer, tmp_path: Path) -> None:
    send(tmp_path, server, make_group(make_episode(reward=1.0)))
    title, system, user, asked, told, answer = studio.messages.values()
    assert title["content"] == [{"type": "text", "text": "train, step 3, task sum: reward 1"}]
    assert (title["metadata"]["reward"], title["metadata"]["step"]) == (1.0, 3)
    assert [system["role"], user["role"], answer["name"]] == ["system", "user", "solver"]
    assert asked["content"] == [
        {"type": "thinking", "thinking": "I add."},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 2, "b": 2}},
    ]
    assert told["content"] == [{"type": "tool_result", "id": "c1", "name": "add", "output": "4"}]
    assert answer["content"] == [{"type": "text", "text": "It is 4."}]
    assert asked["reply"] == told["reply"] == answer["reply"] != user["reply"]
    assert studio.replies[answer["reply"]] == {"name": "solver", "role": "assistant"}


@pytest.mark.parametrize(("wanted", "shown"), [(0, set()), (1, {1.0}), (2, {0.0, 1.0}), (9, {0.0, 0.5, 1.0})])
def test_messages_are_those_of_a_few_episodes_from_the_lowest_reward_to_the_highest(
    wanted: int, shown: set[float], studio: StandInStudio, server: TraceServer, tmp_path: Path
) -> None:
    group = make_group(*(make_episode(n, reward) for n, reward in enumerate((0.5, 1.0, 0.0, None))))
    send(tmp_path, server, group, studio_episodes=wanted)
    assert {message["metadata"]["reward"] for message in studio.messages.values() if "reward" in message["metadata"]} == shown


def test_images_and_what_is_unknown_are_blocks_too(studio: StandInStudio, server: TraceServer, tmp_path: Path) -> None:
    content = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {}},
    ]
    call = make_call(0, [{"role": "user", "content": content}], {"role": "assistant", "content": "!"})
    send(tmp_path, server, make_group(make_episode(calls=[call])))
    (blocks,) = [message["content"] for message in studio.messages.values() if message["role"] == "user"]
    assert blocks == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "text", "text": "[input_audio]"},
    ]


def test_a_large_image_is_named_and_not_halved_in_a_message(studio: StandInStudio, server: TraceServer, tmp_path: Path) -> None:
    content = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * (LONGEST_TEXT + 1)}"}}]
    call = make_call(0, [{"role": "user", "content": content}], {"role": "assistant", "content": "!"})
    send(tmp_path, server, make_group(make_episode(calls=[call])))
    (blocks,) = [message["content"] for message in studio.messages.values() if message["role"] == "user"]
    assert blocks == [{"type": "text", "text": "[... image, image/png, 100,001 characters ...]"}]


def test_a_connection_that_studio_has_just_closed_costs_nothing(studio: StandInStudio, tmp_path: Path) -> None:
    def hang_up(posted: Posted) -> Answer:
        if posted.path == "/trpc/pushMessage" and not studio.messages and not hung_up:
            hung_up.append(posted)
            raise ConnectionAbortedError
        return studio.answer(posted)

    hung_up: list[Posted] = []
    with serve(hang_up) as server:
        send(tmp_path, server)
    assert len(hung_up) == 1
    assert studio.messages


def test_what_is_larger_than_studio_takes_arrives(studio: StandInStudio, server: TraceServer, tmp_path: Path) -> None:
    studio.limit = 100_000
    send(tmp_path, server, make_group(make_episode(query="x" * 150_000)), most_mb=0.1)
    assert len(studio.spans) == 4


def test_requests_are_by_default_as_large_as_studio_takes_them() -> None:
    assert OtelLogger.Options().most_mb * 1e6 <= StandInStudio().limit == 10 * 1024 * 1024


def test_a_resumed_run_is_the_same_run_and_nothing_is_there_twice(
    studio: StandInStudio, server: TraceServer, tmp_path: Path
) -> None:
    send(tmp_path, server)
    before = len(studio.messages)
    logger = OtelLogger.from_run(OtelLogger.Options(studio=server.address, timeout_s=PATIENCE_S), run_info(tmp_path))
    logger.truncate_after(2)
    logger.log_episodes(3, [make_group()])
    logger.close()
    assert (len(studio.runs), len(studio.spans), len(studio.messages)) == (1, 12, before)


def test_studio_and_another_server_both_have_everything_and_keys_are_for_the_other(
    studio: StandInStudio, server: TraceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=theirs")
    with serve() as other:
        send(tmp_path, server, endpoint=other.address, headers={"Authorization": "Bearer theirs"})
        assert set(other.read_spans()) == set(studio.spans)
        assert "theirs" in str([posted.headers for posted in other.posted])
    assert "theirs" not in str([posted.headers for posted in server.posted])


def test_messages_that_studio_refuses_are_counted_and_the_other_server_has_all(tmp_path: Path) -> None:
    def refuse_messages(posted: Any) -> Answer:
        return Answer(status=500, body=b"broken") if posted.path == "/trpc/pushMessage" else Answer()

    with serve(refuse_messages) as server, serve() as other:
        with pytest.raises(PluginError, match=r"2 of 3 episodes did not arrive: pushMessage: 500 .*broken") as found:
            send(tmp_path, server, endpoint=other.address)
        assert other.address not in str(found.value)
