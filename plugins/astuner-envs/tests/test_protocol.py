"""What a client that others have written meets: the five keys, the shapes of answers, and the statuses of failures."""

from __future__ import annotations

import httpx
import pytest

from astuner_envs.worlds.countdown import Countdown, make_puzzle

ACTION = {"role": "assistant", "content": "1 + 1"}


def started(server, task_id="train-0", **keys):
    return server.data("create", env_type="countdown", task_id=task_id, **keys)


def test_a_foreign_client_plays_an_episode_to_its_end(countdown):
    tasks = countdown.data("get_env_profile", env_type="countdown", params={"split": "dev"})
    begun = started(countdown, tasks[3])
    instance_id = begun["info"]["instance_id"]
    assert begun["info"]["task_id"] == tasks[3]
    assert [message["role"] for message in begun["state"]] == ["system", "user"]
    missed = countdown.data("step", instance_id=instance_id, messages=ACTION)
    assert (missed["is_terminated"], missed["state"][0]["role"]) == (False, "user")
    assert isinstance(missed["reward"], float)
    solution = make_puzzle(tasks[3], Countdown.Options()).solution
    ended = countdown.data("step", instance_id=instance_id, messages={**ACTION, "content": solution})
    assert (ended["is_terminated"], ended["info"]["is_success"]) == (True, True)
    assert countdown.data("evaluate", instance_id=instance_id, params={"sparse": True}) == 1.0
    assert countdown.data("get_info", instance_id=instance_id)["steps"] == 2
    assert countdown.post("release", instance_id=instance_id).json() == {"success": True, "data": None}
    assert countdown.post("release", instance_id=instance_id).json() == {"success": False, "data": None}


def test_the_server_is_well(countdown):
    answer = httpx.get(f"{countdown.url}/healthz")
    assert (answer.status_code, answer.text) == (200, "OK")


def test_every_key_may_be_left_out_and_others_added(countdown):
    answer = httpx.post(f"{countdown.url}/release", json={"extra": [1]}, headers=countdown.headers)
    assert answer.json() == {"success": False, "data": None}
    assert httpx.post(f"{countdown.url}/release", headers=countdown.headers).status_code == 200


def test_the_id_of_an_instance_may_be_chosen_by_the_client(countdown):
    begun = started(countdown, instance_id="mine")
    assert begun["info"]["instance_id"] == "mine"
    assert started(countdown, instance_id="mine") == begun
    countdown.data("step", instance_id="mine", messages=ACTION)
    again = countdown.post("create", env_type="countdown", task_id="train-0", instance_id="mine")
    assert (again.status_code, "is there already" in again.json()["detail"]) == (400, True)
    assert countdown.post("release", instance_id="mine").json()["success"]


@pytest.mark.parametrize(
    ("endpoint", "keys", "said"),
    [
        ("get_env_profile", {"env_type": "appworld"}, "no environment 'appworld' here; served: countdown, calculator"),
        (
            "get_env_profile",
            {"env_type": "countdown", "params": {"split": "test"}},
            "no split 'test'; there are train, validation",
        ),
        ("create", {"env_type": "countdown"}, "`task_id` is missing"),
        (
            "create",
            {"env_type": "countdown", "task_id": "train-99999"},
            "there is no task 'train-99999'; there are train-0 to train-999",
        ),
        ("step", {"instance_id": "nobody", "messages": ACTION}, "there is no instance 'nobody': this server never had it"),
        ("step", {"instance_id": "nobody"}, "`messages` is missing"),
        ("step", {"messages": ACTION}, "`instance_id` is missing"),
        ("evaluate", {"instance_id": "nobody"}, "there is no instance 'nobody'"),
        ("get_info", {"instance_id": "nobody"}, "there is no instance 'nobody'"),
    ],
)
def test_bad_ids_are_answered_400_with_what_there_is(countdown, endpoint, keys, said):
    answer = countdown.post(endpoint, **keys)
    assert answer.status_code == 400
    assert said in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [b"no json", b"[1]", b'{"task_id": 3}', b'{"messages": []}', b'{"params": "x"}', b'{"env_type": {}}', b"[" * 100_000],
)
@pytest.mark.parametrize("endpoint", ["create", "release", "step"])
def test_a_body_of_another_form_is_answered_422(countdown, body, endpoint):
    answer = httpx.post(f"{countdown.url}/{endpoint}", content=body, headers=countdown.headers)
    assert answer.status_code == 422
    assert answer.json()["detail"]


def test_a_body_without_an_end_is_not_taken(countdown):
    answer = httpx.post(f"{countdown.url}/step", content=b" " * (17 << 20), headers=countdown.headers)
    assert answer.status_code == 413


def test_a_step_after_the_end_is_refused(countdown):
    instance_id = started(countdown)["info"]["instance_id"]
    solution = make_puzzle("train-0", Countdown.Options()).solution
    countdown.data("step", instance_id=instance_id, messages={**ACTION, "content": solution})
    answer = countdown.post("step", instance_id=instance_id, messages=ACTION)
    assert (answer.status_code, "is over" in answer.json()["detail"]) == (400, True)
    countdown.post("release", instance_id=instance_id)


def test_a_step_with_the_number_of_the_last_one_is_taken_once(countdown):
    begun = started(countdown)
    instance_id = begun["info"]["instance_id"]
    assert begun["info"]["repeatable_steps"] is True
    first, again = (
        countdown.data("step", instance_id=instance_id, messages=ACTION, params={"astuner_step": 1}) for _ in range(2)
    )
    assert first == again
    assert countdown.data("get_info", instance_id=instance_id)["steps"] == 1
    other = {**ACTION, "content": "another one"}
    for action, number in ((other, 1), (ACTION, 0)):
        refused = countdown.post("step", instance_id=instance_id, messages=action, params={"astuner_step": number})
        assert (refused.status_code, "does not follow step 1" in refused.json()["detail"]) == (400, True)
    countdown.post("release", instance_id=instance_id)


def test_a_step_that_was_given_up_leaves_a_gap(countdown):
    instance_id = started(countdown)["info"]["instance_id"]
    for number in (1, 3):
        countdown.data("step", instance_id=instance_id, messages=ACTION, params={"astuner_step": number})
    assert countdown.data("get_info", instance_id=instance_id)["steps"] == 2
    countdown.post("release", instance_id=instance_id)


def test_a_foreign_client_numbers_its_steps_as_it_likes(countdown):
    instance_id = started(countdown)["info"]["instance_id"]
    for number in (7, 0, 0):
        countdown.data("step", instance_id=instance_id, messages=ACTION, params={"step": number})
    countdown.post("release", instance_id=instance_id)


def test_tools_are_named_in_the_info(countdown):
    begun = countdown.data("create", env_type="calculator", task_id="train-0")
    assert begun["info"]["tools"][0]["function"]["name"] == "calculate"
    countdown.post("release", instance_id=begun["info"]["instance_id"])


def test_what_is_served_is_told(countdown):
    found = httpx.get(f"{countdown.url}/envs", headers=countdown.headers).json()["data"]
    assert found["environments"][0] == {"name": "countdown", "splits": {"train": 1000, "validation": 100}}


@pytest.mark.parametrize(
    "given", [{}, {"Authorization": "Bearer other"}, {"Authorization": "Basic x"}, {"Authorization": "Bearer ü".encode()}]
)
@pytest.mark.parametrize(("method", "path"), [("GET", "envs"), ("POST", "create"), ("POST", "release")])
def test_without_the_token_nobody_gets_in(countdown, given, method, path):
    answer = httpx.request(method, f"{countdown.url}/{path}", json={} if method == "POST" else None, headers=given)
    assert answer.status_code == 401
    assert "countdown" not in answer.text


def test_a_token_is_made_where_none_is_given_and_said_once(serve):
    server = serve("--env", "countdown", token=None)
    assert httpx.get(f"{server.url}/envs").status_code == 401
    token = next(line.partition("=")[2] for line in server.said.splitlines() if line.startswith("export ASTUNER_ENV_TOKEN="))
    assert httpx.get(f"{server.url}/envs", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    assert server.said.count(token) == 1


def test_foreign_clients_are_served_without_a_token(serve):
    server = serve("--env", "countdown", "--no-token", token=None)
    first, *described = server.said.splitlines()
    assert first == f"Starting server on {server.url.removeprefix('http://')}"
    assert described[:2] == [
        "countdown; in the YAML of a run:",
        f'  task_reader: {{type: env_service, env_service: {{env_type: countdown, env_url: "{server.url}"}}}}',
    ]
    begun = server.data("create", task_id="train-1")
    assert server.post("release", instance_id=begun["info"]["instance_id"]).json()["success"]
