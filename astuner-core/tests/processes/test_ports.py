"""Ports that are free."""

from __future__ import annotations

import socket

import pytest

from astuner.shared.processes import free_port, ports
from astuner.shared.processes.ports import LOOPBACK


def test_a_free_port_is_none_that_the_system_hands_out_by_itself() -> None:
    port = free_port()
    assert port in ports.OURS
    with socket.socket() as listening:
        listening.bind((LOOPBACK, port))


def test_where_all_of_them_are_taken_it_is_any(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        used = taken.getsockname()[1]
        monkeypatch.setattr(ports, "OURS", range(used, used + 1))
        monkeypatch.setattr(ports, "TRIES", 1)
        assert free_port() not in {0, used}
