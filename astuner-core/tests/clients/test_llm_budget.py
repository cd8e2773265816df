"""What asking costs is counted, and a limit is kept to, many requests at once included."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.shared.clients.llm import LLMClient, LLMFailed, Patience
from astuner.shared.clients.llm_budget import Budget, Limits, LLMBudgetSpent, Usage
from astuner.shared.clients.llm_endpoint import find_endpoint
from astuner_devkit.scripted_api import Reply, ScriptedApi, make_completion, scripted_api

QUESTION = [{"role": "user", "content": "2 + 2?"}]


def client(api: ScriptedApi, **limits: Any) -> LLMClient:
    patience = Patience(first_pause_s=0.0, max_retries=1, timeout_s=20)
    return LLMClient(find_endpoint(api.environ, "the test"), "big", patience, budget=Budget(Limits(**limits)))


def test_tokens_and_cost_are_those_that_the_api_tells() -> None:
    with scripted_api(lambda body, number: make_completion("4", prompt_tokens=2000, completion_tokens=500)) as api:
        llm = client(api, prompt_price=2.0, completion_price=8.0)
        answer = asyncio.run(llm.answer(QUESTION, max_tokens=500))
    assert (answer.text, answer.prompt_tokens, answer.completion_tokens, answer.cost) == ("4", 2000, 500, pytest.approx(0.008))
    assert llm.budget.spent == Usage(requests=1, prompt_tokens=2000, completion_tokens=500, cost=pytest.approx(0.008))  # type: ignore[arg-type]  # pytest's stand-in for a float


def test_requests_at_once_keep_to_the_limit_together() -> None:
    with scripted_api("4") as api:
        api.pause_s = 0.02
        llm = client(api, max_requests=5)

        async def crowd() -> list[Any]:
            return await asyncio.gather(*(llm.ask(QUESTION, max_tokens=9) for _ in range(12)), return_exceptions=True)

        found = asyncio.run(crowd())
    assert len(api.bodies) == 5
    assert found.count("4") == 5
    assert sum(isinstance(one, LLMBudgetSpent) for one in found) == 7


def test_requests_wait_for_what_those_under_way_leave_of_their_reserve() -> None:
    with scripted_api(lambda body, number: make_completion("4", prompt_tokens=10, completion_tokens=5)) as api:
        api.pause_s = 0.02
        llm = client(api, max_tokens=115)

        async def crowd() -> list[Any]:
            return await asyncio.gather(*(llm.ask(QUESTION, max_tokens=40) for _ in range(9)), return_exceptions=True)

        found = asyncio.run(crowd())
    # 15 tokens each; a request may take 13 + 40, so five fit, one after the other.
    assert found.count("4") == 5
    refused = next(one for one in found if one != "4")
    assert "the limit max_total_tokens: 115 is reached (spent: 5 requests, 75 tokens" in str(refused)


def test_a_reserve_that_is_held_is_not_waited_for() -> None:
    budget = Budget(Limits(max_tokens=100))
    budget.reserve("", 80)
    with pytest.raises(LLMBudgetSpent):
        asyncio.run(budget.acquire("", 30))


def test_a_request_of_another_loop_wakes_one_that_waits() -> None:
    budget, begun = Budget(Limits(max_tokens=100)), threading.Event()

    async def hold() -> None:
        reserved = await budget.acquire("", 80)
        begun.set()
        await asyncio.sleep(0.1)
        budget.settle(reserved)

    other = threading.Thread(target=lambda: asyncio.run(hold()))
    other.start()
    begun.wait(10)
    assert asyncio.run(budget.acquire("", 30)).completion_tokens == 30
    other.join()


def test_a_request_that_could_pass_the_cost_limit_is_not_sent() -> None:
    with scripted_api("4") as api, pytest.raises(LLMBudgetSpent, match=r"the limit max_cost: 0\.001 is reached"):
        asyncio.run(client(api, max_cost=0.001, completion_price=10.0).ask(QUESTION, max_tokens=1000))
    assert api.bodies == []


def test_a_request_that_failed_counts_and_leaves_room() -> None:
    with scripted_api(lambda body, number: Reply(400, {}) if number == 0 else "4") as api:
        llm = client(api, max_tokens=40)
        with pytest.raises(LLMFailed):
            asyncio.run(llm.ask(QUESTION, max_tokens=20))
        assert asyncio.run(llm.ask(QUESTION, max_tokens=20)) == "4"
    assert llm.budget.spent.requests == 2


@pytest.mark.parametrize(
    ("reply", "tokens"),
    [
        (make_completion(" ", prompt_tokens=7, completion_tokens=20), 27),
        (make_completion("4"), 20 + len('[{"role": "user", "content": "2 + 2?"}]') // 3),
    ],
    ids=["an answer of no use", "an API that does not tell"],
)
def test_what_was_paid_counts_whatever_came(reply: Reply, tokens: int) -> None:
    with scripted_api(lambda body, number: reply) as api:
        llm = client(api)
        with contextlib.suppress(LLMFailed):
            asyncio.run(llm.ask(QUESTION, max_tokens=20))
    assert llm.budget.spent.prompt_tokens + llm.budget.spent.completion_tokens == tokens


def test_a_question_that_nobody_waits_for_any_more_counts_at_its_most() -> None:
    with scripted_api("4") as api:
        api.pause_s = 1.0
        llm = client(api)

        async def given_up() -> None:
            async with asyncio.timeout(0.3):
                await llm.ask(QUESTION, max_tokens=20)

        with pytest.raises(TimeoutError):
            asyncio.run(given_up())
    assert llm.budget.spent.completion_tokens == 20


def test_an_answer_that_broke_off_counts_at_its_most() -> None:
    with scripted_api(
        lambda body, number: Reply(0) if number < 1 else make_completion("4", prompt_tokens=7, completion_tokens=3)
    ) as api:
        llm = client(api)
        assert asyncio.run(llm.ask(QUESTION, max_tokens=20)) == "4"
    assert llm.budget.spent.completion_tokens == 20 + 3


def test_what_never_reached_the_api_cost_nothing() -> None:
    with scripted_api("4") as api:
        llm = client(api)
    with pytest.raises(LLMFailed, match="could not be reached"):
        asyncio.run(llm.ask(QUESTION, max_tokens=20))
    assert llm.budget.spent == Usage(requests=1)


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=30), st.integers(0, 300))
def test_what_is_spent_and_set_aside_never_passes_the_limit(asked: list[tuple[int, bool]], limit: int) -> None:
    budget, taken = Budget(Limits(max_tokens=limit)), []
    for tokens, ends in asked:
        try:
            taken.append((budget.reserve("", tokens), tokens))
        except LLMBudgetSpent:
            assert sum(tokens for _, tokens in taken) + budget.spent.completion_tokens + tokens > limit
        if ends and taken:
            reserved, used = taken.pop()
            budget.settle(reserved, 0, used)
        assert sum(tokens for _, tokens in taken) + budget.spent.completion_tokens <= limit
