"""What is new in a run reaches the pages that listen, each thing once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from made_up_run import RunWriter, make_groups, price_group

Event = tuple[str, str, dict[str, Any]]


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[RunWriter]:
    run = RunWriter(tmp_path / "launcher_record/growing", planned=9)
    run.write_validation(0, [price_group(0, split="validation")])
    run.write_step(1, make_groups(1))
    yield run
    run.close("interrupted")


@pytest.fixture
def server(growing: RunWriter, start: Callable[..., Any]) -> Any:
    return start()


def find_run(server: Any) -> str:
    with server.open() as client:
        found: str = client.get("/api/runs").json()["runs"][0]["id"]
    return found


def read_events(response: httpx.Response) -> Iterator[Event]:
    """Yield id, name and data of each event."""
    found: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            key, _, value = line.partition(": ")
            found[key] = value
        elif "event" in found:
            yield found.get("id", ""), found["event"], json.loads(found["data"])
            found = {}
        else:
            found = {}


def wait_for(events: Iterator[Event], name: str, wanted: Callable[[dict[str, Any]], bool] = lambda data: True) -> Event:
    return next(event for event in events if event[1] == name and wanted(event[2]))


def wait_until_indexed(events: Iterator[Event]) -> None:
    wait_for(events, "index", lambda data: data["indexed"] == 1)


def test_a_step_and_its_episodes_reach_the_page_of_the_run(server: Any, growing: RunWriter) -> None:
    run = find_run(server)
    with server.open() as client, client.stream("GET", f"/api/events?run={run}", timeout=60) as response:
        assert response.headers["content-type"] == "text/event-stream"
        events = read_events(response)
        wait_until_indexed(events)
        growing.write_step(2, make_groups(2))
        found: dict[str, dict[str, Any]] = {}
        while not {"episodes", "step"} <= set(found):
            _, name, data = next(events)
            found[name] = data
    assert (found["step"]["step"], found["step"]["split"]) == (2, "train")
    assert found["episodes"]["added"] > 0
    assert {row["step"] for row in found["episodes"]["rows"]} == {2}


def test_the_list_of_runs_hears_of_every_run(server: Any, growing: RunWriter, tmp_path: Path) -> None:
    with server.open() as client, client.stream("GET", "/api/events", timeout=60) as response:
        events = read_events(response)
        assert wait_for(events, "run")[2]["name"] == "growing"
        shutil.copytree(growing.directory.path, tmp_path / "launcher_record/another")
        assert wait_for(events, "run", lambda row: row["path"].endswith("/another"))[0] == ""


def test_after_a_lost_connection_the_page_gets_what_it_has_missed(server: Any, growing: RunWriter) -> None:
    run = find_run(server)
    with server.open() as client:
        with client.stream("GET", f"/api/events?run={run}", timeout=60) as response:
            events = read_events(response)
            wait_until_indexed(events)
            last = wait_for(events, "run")[0]
        growing.write_step(2, make_groups(2))
        with client.stream("GET", f"/api/events?run={run}", headers={"last-event-id": last}, timeout=60) as response:
            assert wait_for(read_events(response), "step")[2]["step"] == 2
        with client.stream("GET", f"/api/events?run={run}", timeout=60) as response:
            # Without an id only what happens from now on is new.
            events = read_events(response)
            wait_for(events, "run")
            growing.write_step(3, make_groups(3))
            assert wait_for(events, "step")[2]["step"] == 3


def test_one_browser_listens_four_times_and_the_oldest_place_is_given_away(server: Any) -> None:
    with server.open() as client:
        streams = [client.stream("GET", "/api/events", timeout=60) for _ in range(5)]
        opened = []
        for stream in streams:
            response = stream.__enter__()
            lines = response.iter_lines()
            assert next(lines) == "retry: 1000"
            opened.append(lines)
        assert "retry: 5000" in list(opened[0])
        for stream in streams:
            stream.__exit__(None, None, None)


def test_a_run_that_is_deleted_ends_its_stream(server: Any, growing: RunWriter) -> None:
    path = growing.directory.path
    shutil.copytree(path, path.with_name("another"))
    with server.open() as client:
        runs: dict[str, str] = {}
        while str(path.with_name("another")) not in runs:
            runs = {row["path"]: row["id"] for row in client.get("/api/runs").json()["runs"]}
        run = runs[str(path.with_name("another"))]
        with client.stream("GET", f"/api/events?run={run}", timeout=60) as response:
            lines = response.iter_lines()
            while next(lines) != "event: run":
                pass
            shutil.rmtree(path.with_name("another"))
            assert [line for line in lines if line.startswith("retry")] == ["retry: 5000"]
        assert client.get(f"/api/events?run={run}").status_code == 404


def test_a_run_that_does_not_exist_has_no_events(server: Any) -> None:
    with server.open() as client:
        assert client.get("/api/events?run=nothing").json()["error"].startswith("there is no run")
        assert client.head("/api/events").headers["content-type"] == "text/event-stream"
