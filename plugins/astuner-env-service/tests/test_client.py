"""The client of environment services, against a server as others have written them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio
from foreign_env import SERVER, Control, control_of, foreign_server

from astuner.episodes.rollout.episode_failures import classify_environment_error
from astuner_env_service.client import EnvServiceClient, EnvServiceFailed, Instance, Patience

QUICK = Patience(timeout_s=20.0, max_retries=4, first_pause_s=0.01)
ACTION = {"role": "assistant", "content": "more"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with foreign_server() as address:
        yield address


@pytest.fixture
def control(url: str) -> Iterator[Control]:
    ask = control_of(url)
    yield ask
    assert ask(own_ids=False)["faults"] == [], "a fault was asked for and did not happen"


@pytest_asyncio.fixture
async def client(url: str) -> AsyncIterator[EnvServiceClient]:
    client = EnvServiceClient(url, patience=QUICK)
    yield client
    await client.close()


def instance(client: EnvServiceClient, task_id: str = "2", **more: Any) -> Instance:
    return Instance(client, env_type="counter", task_id=task_id, **more)


def sent(control: Callable[..., dict[str, Any]], endpoint: str) -> list[dict[str, Any]]:
    return [body for name, body, _, _ in control()["received"] if name == endpoint]


@pytest.mark.asyncio
async def test_all_five_keys_are_sent_to_every_endpoint(client, control):
    played = instance(client)
    await client.task_ids("counter", "train")
    await played.create()
    await played.step(ACTION)
    await played.evaluate()
    await client.info(played.id)
    await played.release()
    received = control()["received"]
    assert [name for name, *_ in received] == ["get_env_profile", "create", "step", "evaluate", "get_info", "release"]
    assert all(has_five for _, _, has_five, _ in received)


@pytest.mark.asyncio
async def test_ids_that_are_numbers_become_texts(client):
    assert await client.task_ids("counter", "train") == ["1", "2", "3"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("task_id", "messages"),
    [
        ("1", [{"role": "user", "content": "That makes 1."}]),
        ("2", [{"role": "system", "content": "You said more."}, {"role": "user", "content": "That makes 1.", "name": "world"}]),
        ("3", [{"role": "user", "content": "That makes 1."}]),
    ],
    ids=["one message", "a list", "a message without a role"],
)
async def test_every_message_the_reward_and_the_info_of_a_step_are_kept(client, task_id, messages):
    played = instance(client, task_id)
    await played.create()
    state = await played.step(ACTION)
    assert list(state.messages) == messages
    assert (state.reward, state.is_terminated, state.info) == (0.5, False, {"count": 1, "kept": [1, 2]})
    assert (await played.step({"role": "assistant", "content": "stop"})).is_terminated
    await played.release()


@pytest.mark.asyncio
async def test_the_score_is_asked_for_sparsely_or_not(client):
    played = instance(client)
    await played.create()
    await played.step(ACTION)
    assert (await played.evaluate(), await played.evaluate(sparse=True)) == (0.25, 1.0)
    await played.release()


@pytest.mark.asyncio
async def test_the_action_is_sent_with_its_tool_calls(client, control):
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    played = instance(client)
    await played.create()
    await played.step({**ACTION, "tool_calls": calls})
    await played.release()
    assert sent(control, "step")[0]["messages"] == {**ACTION, "tool_calls": calls}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "fault", [{"when": "before"}, {"when": "after"}, {"when": "after", "status": 500}, {"when": "before", "status": 503}]
)
@pytest.mark.parametrize("endpoint", ["get_env_profile", "create", "evaluate", "get_info"])
async def test_what_may_happen_twice_is_asked_again(client, control, endpoint, fault):
    control(faults=[{"at": endpoint, **fault}, {"at": endpoint, **fault}])
    played = instance(client)
    await client.task_ids("counter", "dev")
    await played.create()
    await played.evaluate()
    await client.info(played.id)
    await played.release()
    assert len(sent(control, endpoint)) == 3
    assert control()["instances"] == {}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "fault", [{"when": "before"}, {"when": "after"}, {"when": "after", "status": 500}, {"when": "after", "status": 502}]
)
async def test_a_step_that_may_have_been_taken_is_not_sent_again(client, control, fault):
    control(faults=[{"at": "step", **fault}])
    played = instance(client)
    await played.create()
    with pytest.raises(EnvServiceFailed, match="/step "):
        await played.step(ACTION)
    assert len(sent(control, "step")) == 1
    await played.release()


@pytest.mark.asyncio
async def test_a_step_that_was_surely_not_taken_is_sent_again(client, control):
    control(faults=[{"at": "step", "when": "before", "status": 503}])
    played = instance(client)
    await played.create()
    assert (await played.step(ACTION)).info["count"] == 1
    assert len(sent(control, "step")) == 2
    await played.release()


@pytest.mark.asyncio
async def test_a_server_that_comes_back_is_found_again(unused_tcp_port):
    client = EnvServiceClient(f"http://127.0.0.1:{unused_tcp_port}", patience=Patience(max_retries=8, first_pause_s=0.1))
    asked = asyncio.create_task(client.task_ids("counter", "train"))
    await asyncio.sleep(0.2)
    process = subprocess.Popen([sys.executable, str(SERVER), str(unused_tcp_port)], stdout=subprocess.DEVNULL)
    try:
        assert await asked == ["1", "2", "3"]
    finally:
        process.kill()
        process.wait()
        await client.close()


@pytest.mark.asyncio
async def test_making_an_instance_waits_for_a_place_without_a_retry(url, control):
    client = EnvServiceClient(url, patience=Patience(max_retries=0, first_pause_s=0.01))
    control(faults=[{"at": "create", "when": "before", "status": 503}] * 6)
    played = instance(client)
    await played.create()
    assert len(sent(control, "create")) == 7
    await played.release()
    await client.close()


@pytest.mark.asyncio
async def test_making_an_instance_waits_for_a_server_without_a_retry(unused_tcp_port):
    client = EnvServiceClient(f"http://127.0.0.1:{unused_tcp_port}", patience=Patience(max_retries=0, first_pause_s=0.1))
    played = instance(client)
    making = asyncio.create_task(played.create())
    await asyncio.sleep(0.2)
    process = subprocess.Popen([sys.executable, str(SERVER), str(unused_tcp_port)], stdout=subprocess.DEVNULL)
    try:
        assert (await making).messages
        await played.release()
    finally:
        process.kill()
        process.wait()
        await client.close()


@pytest.mark.asyncio
async def test_the_wait_for_a_place_has_an_end(url, control):
    client = EnvServiceClient(url, patience=Patience(max_retries=0, first_pause_s=0.01, place_timeout_s=2.0))
    control(faults=[{"at": "create", "when": "before", "status": 503}] * 500)
    with pytest.raises(EnvServiceFailed, match="/create answered 503"):
        await instance(client).create()
    assert len(sent(control, "create")) > 1
    control(forget=True)
    await client.close()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "fault",
    [
        {"when": "before", "status": 503},
        {"when": "before", "status": 413},
        {"when": "after", "status": 500},
        {"status": 200, "answer": {"success": True, "data": 3}},
        {"sleep_s": 30},
    ],
)
async def test_no_two_actions_have_one_number_whatever_became_of_the_first(url, control, fault):
    made = {"state": [{"role": "user", "content": "x"}], "info": {"repeatable_steps": True}}
    control(faults=[{"at": "create", "answer": {"success": True, "data": made}}, {"at": "step", **fault}])
    client = EnvServiceClient(url, patience=Patience(max_retries=0))
    played = instance(client)
    await played.create()
    with pytest.raises((EnvServiceFailed, TimeoutError)):
        await asyncio.wait_for(played.step(ACTION), 2.0)
    await played.step(ACTION)
    assert [body["params"] for body in sent(control, "step")] == [{"astuner_step": number} for number in (1, 2)]
    await played.release()
    await client.close()


@pytest.mark.asyncio
async def test_half_a_character_is_replaced(client, control):
    played = instance(client)
    await played.create()
    await played.step({**ACTION, "content": "é \ud83d!"})
    await played.release()
    assert sent(control, "step")[0]["messages"]["content"] == "é ?!"


@pytest.mark.asyncio
async def test_what_is_no_json_is_named_with_the_endpoint(client):
    with pytest.raises(EnvServiceFailed, match="/get_info cannot be asked: the request cannot be written as JSON"):
        await client.info("x", {"level": float("nan")})


@pytest.mark.asyncio
async def test_the_id_that_the_server_chooses_is_used(client, control):
    control(own_ids=True)
    played = instance(client)
    await played.create()
    assert played.id.startswith("own-")
    assert (await played.step(ACTION)).info["count"] == 1
    assert await played.release()
    assert control()["instances"] == {}


@pytest.mark.asyncio
async def test_an_instance_whose_making_was_cancelled_is_released(client, control):
    control(faults=[{"at": "create", "sleep_s": 30}])
    played = instance(client)
    making = asyncio.create_task(played.create())
    while not control()["instances"]:
        await asyncio.sleep(0.01)
    making.cancel()
    await asyncio.gather(making, return_exceptions=True)
    assert await played.release()
    assert control()["instances"] == {}


@pytest.mark.asyncio
async def test_what_was_never_made_is_not_released(client, control):
    assert not await instance(client).release()
    assert sent(control, "release") == []


@pytest.mark.asyncio
async def test_an_instance_is_released_once(client, control):
    played = instance(client)
    await played.create()
    assert [await played.release(), await played.release()] == [True, False]
    assert len(sent(control, "release")) == 1


@pytest.mark.asyncio
async def test_an_instance_that_nobody_asks_anything_is_kept_alive(client, control):
    played = instance(client, heartbeat_s=0.02)
    await played.create()
    while len(sent(control, "get_info")) < 3:
        await asyncio.sleep(0.01)
    await played.release()
    # One that was under way may still be written down.
    await asyncio.sleep(0.2)
    beats = len(sent(control, "get_info"))
    await asyncio.sleep(0.2)
    assert len(sent(control, "get_info")) == beats


@pytest.mark.asyncio
async def test_a_traceback_of_the_server_is_told_by_its_last_line(client):
    played = instance(client)
    await played.create()
    with pytest.raises(EnvServiceFailed) as caught:
        await played.step({"role": "assistant", "content": "raise"})
    await played.release()
    assert "/step answered 500: RuntimeError: the world broke" in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert "task '2'" in str(caught.value)


@pytest.mark.asyncio
async def test_an_instance_that_the_server_lost_says_what_may_have_happened(client, control):
    played = instance(client)
    await played.create()
    await client.release(played.id)
    with pytest.raises(EnvServiceFailed, match="it was released, or the server was restarted"):
        await played.step(ACTION)
    assert not await played.release()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"when": "before"}, "environment_error"),
        ({"when": "before", "status": 502}, "environment_error"),
        ({"when": "before", "status": 500}, "workflow_error"),
        ({"when": "before", "status": 504}, "workflow_error"),
        ({"when": "before", "status": 400}, "workflow_error"),
    ],
    ids=["connection lost", "no server behind the proxy", "server error", "too slow for the proxy", "action refused"],
)
async def test_only_what_no_action_can_cause_is_a_failure_of_the_surroundings(client, control, fault, reason):
    control(faults=[{"at": "step", **fault}])
    played = instance(client)
    await played.create()
    with pytest.raises(EnvServiceFailed) as caught:
        await played.step(ACTION)
    await played.release()
    assert classify_environment_error(caught.value, method="step") == reason


@pytest.mark.asyncio
async def test_a_forgotten_instance_is_a_failure_of_the_surroundings(client):
    played = instance(client)
    await played.create()
    await client.release(played.id)
    with pytest.raises(EnvServiceFailed) as caught:
        await played.step(ACTION)
    assert classify_environment_error(caught.value, method="step") == "environment_error"


@pytest.mark.asyncio
async def test_a_server_that_is_not_there_is_named(unused_tcp_port):
    client = EnvServiceClient(f"http://127.0.0.1:{unused_tcp_port}/", patience=Patience(max_retries=1, first_pause_s=0))
    with pytest.raises(EnvServiceFailed, match=rf"http://127.0.0.1:{unused_tcp_port}: /get_env_profile could not be asked"):
        await client.task_ids("counter", "train")
    assert not await client.healthy()
    await client.close()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("endpoint", "data", "said"),
    [
        ("get_env_profile", {"a": 1}, "a list of task ids"),
        ("get_env_profile", [True], "a list of task ids"),
        ("evaluate", "high", "a finite number"),
        ("evaluate", None, "there is no score"),
        ("step", [], "an object with `state`"),
        ("step", {"state": [3]}, "a message is an object"),
        ("step", {"state": [], "reward": "much"}, "`reward` is a finite number"),
        ("step", {"state": [], "is_terminated": "no"}, "`is_terminated` is true or false"),
        ("step", {"state": [], "info": []}, "`info` is an object"),
    ],
)
async def test_an_odd_answer_is_an_error_that_names_the_endpoint(client, control, endpoint, data, said):
    control(faults=[{"at": endpoint, "answer": {"success": True, "data": data}}])
    played = instance(client)
    await played.create()
    asks = {"get_env_profile": lambda: client.task_ids("counter", "train"), "evaluate": played.evaluate}
    with pytest.raises(EnvServiceFailed, match=f"/{endpoint} gave an odd answer: .*{said}"):
        await asks.get(endpoint, lambda: played.step(ACTION))()
    await played.release()


@pytest.mark.asyncio
async def test_an_answer_that_says_it_failed_is_a_failure(client, control):
    control(faults=[{"at": "get_info", "status": 200, "answer": {"success": False, "detail": "out of order"}}])
    with pytest.raises(EnvServiceFailed, match="/get_info failed: out of order"):
        await client.info("x")


@pytest.mark.asyncio
async def test_a_token_is_sent_as_a_bearers_and_never_shown(url, control):
    control(faults=[{"at": "step", "status": 400, "answer": {"detail": "no sec-ret-token here"}}])
    client = EnvServiceClient(url, token="sec-ret-token", patience=QUICK)
    played = instance(client)
    await played.create()
    with pytest.raises(EnvServiceFailed) as caught:
        await played.step(ACTION)
    await played.release()
    await client.close()
    assert "***" in str(caught.value)
    assert "sec-ret-token" not in str(caught.value)
    assert {authorization for *_, authorization in control()["received"]} == {"Bearer sec-ret-token"}


@pytest.mark.asyncio
async def test_a_server_that_wants_a_token_is_answered_with_where_it_comes_from(client, control):
    control(faults=[{"at": "get_info", "status": 401, "answer": {"detail": "who are you?"}}])
    with pytest.raises(EnvServiceFailed, match=r"wants a token \(401\); the environment variable ASTUNER_ENV_TOKEN is not set"):
        await client.info("x")
