"""States as servers write them, whatever they hold, and what may be sent again."""

from __future__ import annotations

import subprocess
import sys

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_env_service.client.failures import LONGEST_PAUSE_S, Patience, describe_failure, may_repeat_answer, may_repeat_error
from astuner_env_service.client.states import InvalidState, read_state
from astuner_env_service.client.token import read_token

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=8), below, max_size=3),
    max_leaves=8,
)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "tool", "system"]), "content": st.text()}), max_size=5
)


@given(MESSAGES)
def test_a_list_of_messages_is_kept_as_it_is(messages):
    assert list(read_state({"state": messages}).messages) == messages


@given(MESSAGES.filter(bool))
def test_one_message_is_a_list_of_one(messages):
    assert read_state({"state": messages[0]}) == read_state({"state": messages[:1]})


@given(st.fixed_dictionaries({}, optional={"state": JSON, "reward": JSON, "is_terminated": JSON, "info": JSON}))
def test_whatever_a_server_says_is_a_state_or_is_refused(data):
    try:
        state = read_state(data)
    except InvalidState:
        return
    assert all(
        isinstance(message["role"], str) or message["role"] == data["state"] for message in state.messages if "role" in message
    )
    assert isinstance(state.reward, float)
    assert isinstance(state.is_terminated, bool)


@pytest.mark.parametrize(
    ("state", "content"),
    [
        ("a text", "a text"),
        ({"error": "no such app"}, "[error of the environment] no such app"),
        ({"board": [1, 2]}, '{"board": [1, 2]}'),
    ],
)
def test_states_of_older_servers_become_messages(state, content):
    assert read_state({"state": state}).messages == ({"role": "user", "content": content},)


def test_tool_calls_without_a_text_are_a_message():
    message = {"role": "assistant", "tool_calls": [{"id": "a"}]}
    assert read_state({"state": [message]}).messages == (message,)


@pytest.mark.parametrize(
    ("status", "after"),
    [(429, 3), (503, 3), (408, 2), (502, 2), (504, 2), (500, 1), (507, 1), (400, 0), (401, 0), (404, 0), (422, 0)],
)
def test_which_answers_lead_to_a_second_request(status, after):
    assert sum(may_repeat_answer(status, repeat) for repeat in ("undelivered", "lost", "failed")) == after


@pytest.mark.parametrize(
    ("error", "after"),
    [
        (httpx.ConnectError("x"), 3),
        (httpx.ConnectTimeout("x"), 3),
        (httpx.ReadTimeout("x"), 2),
        (httpx.ReadError("x"), 2),
        (httpx.WriteError("x"), 2),
        (httpx.RemoteProtocolError("x"), 2),
        (httpx.InvalidURL("x"), 0),
    ],
)
def test_which_errors_lead_to_a_second_request(error, after):
    assert sum(may_repeat_error(error, repeat) for repeat in ("undelivered", "lost", "failed")) == after


def test_pauses_double_up_to_a_limit_and_a_server_may_ask_for_longer_ones():
    patience = Patience(first_pause_s=0.5)
    assert [patience.compute_pause_s(attempt, 0.0) for attempt in range(6)] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert [patience.compute_pause_s(0, 3.0), patience.compute_pause_s(10_000, 99.0)] == [3.0, LONGEST_PAUSE_S]


def test_what_a_server_says_is_told_in_one_line():
    assert describe_failure("a\n  b\n") == "a b"
    assert describe_failure({"loc": ["body"]}) == "{'loc': ['body']}"
    assert describe_failure("Traceback (most recent call last):\n  File x\nValueError: no\n") == "ValueError: no"


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("http://10.0.0.1:8080/", "secret"),
        ("http://10.0.0.1:8080/path", "secret"),
        ("http://10.0.0.1:8081", None),
        ("http://elsewhere:8080", None),
        ("https://10.0.0.1:8080", None),
    ],
)
def test_only_a_server_of_the_configuration_gets_the_token(monkeypatch, url, token):
    monkeypatch.setenv("ASTUNER_ENV_TOKEN", "secret")
    assert read_token(url, ("http://10.0.0.1:8080",)) == token


def test_importing_the_client_imports_no_library_for_http():
    code = "import sys, astuner_env_service.client; print('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_missing_library_is_answered_with_the_command_that_brings_it():
    code = """
import asyncio, sys
sys.modules["httpx"] = None
from astuner_env_service.client import EnvServiceClient
from astuner.contract.errors import PluginError
try:
    asyncio.run(EnvServiceClient("http://127.0.0.1:1").info("x"))
except PluginError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install httpx" in shown
