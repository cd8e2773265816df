from __future__ import annotations

import asyncio
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.schema import Capabilities, Request
from astuner.shared.processes import attach, list_programs
from astuner_devkit import until_so
from astuner_vllm.client import ServerClient
from astuner_vllm.failures import Refused, ServerError, ServerLost
from astuner_vllm.fleet import Fleet
from astuner_vllm.member import Member
from astuner_vllm.server import start_server
from astuner_vllm.worker_access import ServerAccess

Ask = Callable[..., Request]
pytestmark = pytest.mark.asyncio


def silent(text: str, level: str) -> None:
    pass


async def fleet_of(directory: Path, *members: Member, say: Any = silent, max_restarts: int = 3) -> Fleet:
    fleet = Fleet(members=members, say=say, max_restarts=max_restarts, sync="keep", directory=directory)
    await fleet.open()
    return fleet


async def attached(directory: Path, *urls: str) -> Fleet:
    return await fleet_of(directory, *(Member(name=url, client=ServerClient(url, silence_s=5)) for url in urls))


async def answer(fleet: Fleet, request: Request) -> list[int]:
    return [number async for chunk in fleet.generate(request) for number in chunk.ids]


async def test_a_session_stays_on_its_server(fake: Any, ask: Ask, tmp_path: Path) -> None:
    async with fake.vllm() as one, fake.vllm() as other:
        fleet = await attached(tmp_path, one.url, other.url)
        for session in ("first", "second", "third"):
            await answer(fleet, ask(session))
        fleet.release("second")
        # A new session would go to the other one now.
        await answer(fleet, ask("first"))
        await fleet.close()
    assert [len(one.bodies), len(other.bodies)] == [3, 1]


async def test_new_sessions_go_where_the_fewest_are(fake: Any, ask: Ask, tmp_path: Path) -> None:
    async with fake.vllm() as one, fake.vllm() as other:
        fleet = await attached(tmp_path, one.url, other.url)
        for number in range(6):
            await answer(fleet, ask(str(number)))
        await fleet.close()
    assert [len(one.bodies), len(other.bodies)] == [3, 3]


async def test_a_released_session_makes_room(fake: Any, ask: Ask, tmp_path: Path) -> None:
    async with fake.vllm() as one, fake.vllm() as other:
        fleet = await attached(tmp_path, one.url, other.url)
        for number in range(4):
            await answer(fleet, ask(str(number)))
            fleet.release(str(number))
        await fleet.close()
    assert [len(one.bodies), len(other.bodies)] == [4, 0]


async def test_a_connection_that_breaks_before_the_first_token_is_made_again(fake: Any, ask: Ask, tmp_path: Path) -> None:
    async with fake.vllm(fake.reset(), fake.reset(), fake.stream(fake.event([3], finish="length"))) as server:
        fleet = await attached(tmp_path, server.url)
        assert await answer(fleet, ask()) == [3]
        await fleet.close()
    assert len(server.bodies) == 3


async def test_a_connection_that_breaks_after_the_first_token_ends_the_call(fake: Any, ask: Ask, tmp_path: Path) -> None:
    async with fake.vllm(fake.reset(fake.event([3])), fake.stream(fake.event([3], finish="length"))) as server:
        fleet = await attached(tmp_path, server.url)
        with pytest.raises(ServerLost):
            await answer(fleet, ask())
        await fleet.close()
    assert len(server.bodies) == 1


async def test_a_server_that_always_resets_is_not_asked_for_ever(fake: Any, ask: Ask, tmp_path: Path) -> None:
    async with fake.vllm(fake.reset()) as server:
        fleet = await attached(tmp_path, server.url)
        with pytest.raises(ServerLost):
            await answer(fleet, ask())
        await fleet.close()
    assert len(server.bodies) == 4


async def test_the_sessions_of_a_lost_server_move(fake: Any, ask: Ask, tmp_path: Path) -> None:
    async with fake.vllm() as one, fake.vllm() as other:
        fleet = await attached(tmp_path, one.url, other.url)
        await answer(fleet, ask("s"))
        first, second = (one, other) if one.bodies else (other, one)
        first.answers = [fake.reset()]
        first.replies["/health"] = fake.page(b"dead", status="503 Unavailable")
        assert await answer(fleet, ask("s")) == [1]
        assert len(second.bodies) == 1
        await fleet.close()


async def test_a_call_moves_from_a_server_whose_engine_has_died_and_stays_with_one_that_refuses(
    fake: Any, ask: Ask, tmp_path: Path
) -> None:
    async with fake.vllm() as one, fake.vllm() as other:
        fleet = await attached(tmp_path, one.url, other.url)
        await answer(fleet, ask("s"))
        first, second = (one, other) if one.bodies else (other, one)
        first.answers = [fake.page(b"{}", status="500 Internal Server Error", kind="application/json")]
        with pytest.raises(Refused):
            await answer(fleet, ask("s"))
        assert second.bodies == []
        first.replies["/health"] = fake.page(b"dead", status="503 Unavailable")
        assert await answer(fleet, ask("s")) == [1]
        await fleet.close()


async def test_an_update_goes_on_without_a_server_whose_engine_has_died(fake: Any, tmp_path: Path) -> None:
    async with fake.vllm() as one, fake.vllm() as other:
        fleet = await attached(tmp_path, one.url, other.url)
        one.replies["/pause"] = fake.page(b"{}", status="500 Internal Server Error", kind="application/json")
        one.replies["/health"] = fake.page(b"dead", status="503 Unavailable")
        (tmp_path / "weights").mkdir()
        await fleet.update(tmp_path / "weights", 1)
        await fleet.close()
    assert "/resume" in other.paths
    assert "/update_weights" not in one.paths


async def test_a_connection_that_breaks_in_an_update_is_made_again(fake: Any, tmp_path: Path) -> None:
    async with fake.vllm() as server:
        fleet = await attached(tmp_path, server.url)
        acts = [fake.reset(), fake.page(b"{}", kind="application/json")]

        async def at_first_not(writer: asyncio.StreamWriter) -> None:
            await acts.pop(0)(writer)

        server.replies["/pause"] = at_first_not
        (tmp_path / "weights").mkdir()
        await fleet.update(tmp_path / "weights", 1)
        assert fleet.members[0].up
        await fleet.close()
    assert server.paths.count("/update_weights") == 1


async def test_resuming_while_a_server_comes_back_starts_requests_again(fake: Any, ask: Ask, tmp_path: Path) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(writer: asyncio.StreamWriter) -> None:
        reached.set()
        await go_on.wait()
        await fake.page(b"{}", kind="application/json")(writer)

    async with fake.vllm() as server:
        fleet = await attached(tmp_path, server.url)
        (tmp_path / "weights").mkdir()
        await fleet.update(tmp_path / "weights", 1)
        fleet.pause()
        server.replies["/pause"] = slowly
        fleet._mark_lost(fleet.members[0], "it was")
        await reached.wait()
        fleet.resume()
        go_on.set()
        async with asyncio.timeout(20):
            assert await answer(fleet, ask()) == [1]
        await fleet.close()


async def test_without_any_server_a_call_fails_with_the_names(fake: Any, ask: Ask, tmp_path: Path) -> None:
    async with fake.vllm(fake.reset()) as server:
        fleet = await attached(tmp_path, server.url)
        server.replies["/health"] = fake.page(b"dead", status="503 Unavailable")
        with pytest.raises(ServerLost, match=f"{server.url}: cannot be reached"):
            await answer(fleet, ask())
        await fleet.close()


async def test_all_servers_have_new_weights_before_any_goes_on(fake: Any, tmp_path: Path) -> None:
    order: list[str] = []

    def note_order(name: str) -> Any:
        async def act(writer: asyncio.StreamWriter) -> None:
            order.append(name)
            await fake.page(b"{}", kind="application/json")(writer)

        return act

    async with fake.vllm() as one, fake.vllm() as other:
        for server in (one, other):
            server.replies |= {path: note_order(path) for path in ("/pause", "/finish_weight_update", "/resume")}
        fleet = await attached(tmp_path, one.url, other.url)
        await fleet.update(str(tmp_path), 1)
        await fleet.close()
    assert order == ["/pause"] * 2 + ["/finish_weight_update"] * 2 + ["/resume"] * 2


async def test_weights_that_a_server_refuses_end_the_update_and_the_pause(fake: Any, tmp_path: Path) -> None:
    async with fake.vllm() as server:
        refusal = fake.page(b'{"error": {"message": "lacks 3 weights"}}', status="500 Error", kind="application/json")
        server.replies["/update_weights"] = refusal
        fleet = await attached(tmp_path, server.url)
        with pytest.raises(Refused, match="lacks 3 weights"):
            await fleet.update(str(tmp_path), 1)
        await fleet.close()
    assert server.paths[-1] == "/resume"


async def test_a_request_waits_for_the_end_of_an_update(fake: Any, ask: Ask, tmp_path: Path) -> None:
    loading, go_on = asyncio.Event(), asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        loading.set()
        await go_on.wait()
        await fake.page(b"{}", kind="application/json")(writer)

    async with fake.vllm() as server, asyncio.timeout(20):
        server.replies["/update_weights"] = slow
        fleet = await attached(tmp_path, server.url)
        updating = asyncio.ensure_future(fleet.update(str(tmp_path), 1))
        await loading.wait()
        answering = asyncio.ensure_future(answer(fleet, ask()))
        await asyncio.sleep(0.1)
        assert server.bodies == []
        go_on.set()
        await updating
        assert await answering == [1]
        await fleet.close()


async def test_a_server_that_another_run_is_starting_is_waited_for(programs: Any, ask: Ask, tmp_path: Path) -> None:
    starting = asyncio.ensure_future(start_server(programs.slow_plan("late"), silent))
    await until_so(list_programs)
    member = evolve(programs.member(), find=lambda say: attach(list_programs()[0]))
    fleet = await fleet_of(tmp_path, member)
    assert await answer(fleet, ask()) == [7]
    await fleet.close()
    await asyncio.gather(starting, return_exceptions=True)


async def test_a_killed_server_is_started_again_with_the_current_weights(programs: Any, ask: Ask, tmp_path: Path) -> None:
    member = programs.member()
    fleet = await fleet_of(tmp_path, member, say=programs.say)
    await fleet.update(str(tmp_path), 5)
    assert await answer(fleet, ask()) == [7]
    os.kill(int(programs.posts()[0][0]), signal.SIGKILL)
    await until_so(lambda: not member.up)
    before = len(programs.posts())
    assert await answer(fleet, ask()) == [7]
    await fleet.close()
    after = [path for _, path, _ in programs.posts()[before:]]
    assert after.index("/update_weights") < after.index("/inference/v1/generate")
    assert any(level == "warning" and "started again (1 of 3)" in text for level, text in programs.said)


async def test_a_server_that_is_lost_too_often_fails_every_call_with_the_reason(programs: Any, ask: Ask, tmp_path: Path) -> None:
    member = programs.member()
    fleet = await fleet_of(tmp_path, member, max_restarts=0)
    await answer(fleet, ask())
    os.kill(int(programs.posts()[0][0]), signal.SIGKILL)
    await until_so(lambda: member.failed is not None)
    with pytest.raises(ServerError, match=r"no vLLM server is left \(rollout.vllm.max_restarts = 0\): vllm-0 was lost"):
        await answer(fleet, ask())
    with pytest.raises(ServerError, match="no vLLM server is left"):
        await fleet.update(str(tmp_path), 1)
    await fleet.close()


async def test_a_server_killed_between_two_updates_is_replaced_with_the_newer_weights(
    programs: Any, ask: Ask, tmp_path: Path
) -> None:
    member = programs.member()
    fleet = await fleet_of(tmp_path, member, say=programs.say)
    await fleet.update(str(tmp_path / "old"), 1)
    os.kill(int(programs.posts()[0][0]), signal.SIGKILL)
    await fleet.update(str(tmp_path / "new"), 2)
    await answer(fleet, ask())
    await fleet.close()
    last = programs.posts()[-1][0]
    given = [body for pid, path, body in programs.posts() if pid == last and path == "/update_weights"]
    assert ["new" in body for body in given] == [True]
    assert member.client.versions.version == 2


async def test_a_start_that_fails_leaves_no_other_server(programs: Any, tmp_path: Path) -> None:
    members = [programs.member("vllm-0"), programs.member("vllm-1", program="raise SystemExit(3)")]
    with pytest.raises(ServerError, match=r"vllm-1 did not start \(exit status 3\)"):
        await fleet_of(tmp_path, *members)


async def test_closing_ends_the_servers(programs: Any, ask: Ask, tmp_path: Path) -> None:
    member = programs.member()
    fleet = await fleet_of(tmp_path, member)
    await fleet.close()
    assert member.exit_status() is not None
    with pytest.raises(ServerLost, match="was closed"):
        await answer(fleet, ask())


async def test_a_worker_reaches_the_servers_with_the_weights_of_the_moment(fake: Any, ask: Ask, tmp_path: Path) -> None:
    async with fake.vllm() as one, fake.vllm() as other:
        fleet = await attached(tmp_path, one.url, other.url)
        for client in fleet.list_clients():
            client.versions.take(client.versions.label, 5)
        addresses = tuple(client.describe_address() for client in fleet.list_clients())
        access = pickle.loads(pickle.dumps(ServerAccess(servers=addresses, capabilities=Capabilities())))
        engine = access.open()
        await engine.start()
        chunks = [[chunk async for chunk in engine.generate(ask(session))] for session in ("first", "second", "first")]
        await engine.release("first")
        await engine.close()
        await fleet.close()
    assert [len(one.bodies), len(other.bodies)] == [2, 1]
    assert {chunk.weight_version for said in chunks for chunk in said} == {5}
    assert access.same_machine
