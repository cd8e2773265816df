from __future__ import annotations

from itertools import islice

import pytest

from astuner.shared.clients.llm_endpoint import DASHSCOPE, OPENAI, Endpoint, NoEndpoint, find_endpoint


def test_a_server_of_ones_own_needs_no_key() -> None:
    found = find_endpoint({"OPENAI_BASE_URL": "http://here/v1"}, "x")
    assert (found.base_url, found.keys) == ("http://here/v1", ("none",))


def test_a_named_server_wins_over_dashscope_and_dashscope_over_openai() -> None:
    environ = {"OPENAI_API_KEY": "o", "DASHSCOPE_API_KEY": "d"}
    assert find_endpoint(environ, "x").base_url == DASHSCOPE
    assert find_endpoint({**environ, "OPENAI_BASE_URL": "http://here/v1"}, "x").keys == ("o",)
    assert find_endpoint({"OPENAI_API_KEY": "o"}, "x").base_url == OPENAI


def test_dashscope_takes_several_keys_and_a_backup() -> None:
    found = find_endpoint({"DASHSCOPE_API_KEY": "a| b |", "DASHSCOPE_API_KEY_BACKUP": "c"}, "x")
    assert (found.keys, found.backup, found.keys_from) == (("a", "b"), ("c",), "DASHSCOPE_API_KEY")


def test_dashscope_may_be_another_region() -> None:
    assert find_endpoint({"DASHSCOPE_API_KEY": "a", "DASHSCOPE_BASE_URL": "http://there/v1"}, "x").base_url == "http://there/v1"


KEYLESS = ({}, {"OPENAI_API_KEY": "  "}, {"DASHSCOPE_API_KEY": "|"}, {"DASHSCOPE_API_KEY_BACKUP": "c"})


@pytest.mark.parametrize("environ", KEYLESS)
def test_no_key_is_an_error_that_says_who_wants_one_and_where_to_put_it(environ: dict[str, str]) -> None:
    with pytest.raises(
        NoEndpoint, match=r"^task_judge\.x needs an LLM.*DASHSCOPE_API_KEY, or OPENAI_API_KEY, or OPENAI_BASE_URL"
    ):
        find_endpoint(environ, "task_judge.x")


def test_each_request_begins_with_the_next_key_and_ends_with_the_backup() -> None:
    endpoint = Endpoint(base_url="u", keys=("a", "b"), backup=("c",), keys_from="K")
    assert ["".join(islice(endpoint.iterate_keys(request), 5)) for request in range(3)] == ["abcab", "bacba", "abcab"]


def test_keys_are_not_shown() -> None:
    assert "secret" not in repr(Endpoint(base_url="u", keys=("secret",), backup=("secret2",), keys_from="K"))
