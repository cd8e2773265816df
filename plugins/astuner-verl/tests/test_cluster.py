"""What is refused before anything is started."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import RunFailed, UsageError
from astuner.shared.processes.ports import free_port
from astuner_devkit.run_infos import run_info
from astuner_verl.cluster import attach, check_versions
from astuner_verl.process_environment import build_environment
from astuner_verl.watch import silence_s


def installed(monkeypatch: pytest.MonkeyPatch, verl: str | None, trl: str | None = None) -> None:
    def answer(name: str) -> str:
        version = {"verl": verl, "trl": trl}[name]
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", answer)


@pytest.mark.parametrize("version", ["0.9.1", "0.9.7", "0.9.2.dev1"])
def test_a_verl_that_is_driven(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    installed(monkeypatch, version)
    check_versions()


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.8.0", "verl 0.8.0 is installed; the backbone 'verl' drives verl>=0.9.1,<0.10"),
        ("0.10.0", "verl 0.10.0 is installed"),
        (None, "which is not installed: pip install 'verl>=0.9.1,<0.10'"),
    ],
)
def test_another_verl_is_refused(monkeypatch: pytest.MonkeyPatch, version: str | None, said: str) -> None:
    installed(monkeypatch, version)
    with pytest.raises(UsageError, match=said.replace(".", r"\.")):
        check_versions()


@pytest.mark.parametrize("version", ["0.27.0", "1.12.0"])
def test_a_trl_that_has_what_verl_imports(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    installed(monkeypatch, "0.9.1", version)
    check_versions()


@pytest.mark.parametrize("version", ["1.13.0", "1.16.0"])
def test_a_trl_beside_which_verl_does_not_start_is_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    installed(monkeypatch, "0.9.1", version)
    with pytest.raises(UsageError, match=rf"trl {version} is installed, beside which no worker of verl.*'trl<1\.13'"):
        check_versions()


@pytest.mark.parametrize(
    ("address", "error", "said"),
    [
        ("ray://head:10001", UsageError, "ray job submit"),
        ("127.0.0.1:{port}", RunFailed, "no Ray cluster answers there"),
    ],
)
def test_an_address_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str, error: type[Exception], said: str
) -> None:
    pytest.importorskip("ray")
    installed(monkeypatch, "0.9.1")
    monkeypatch.setenv("RAY_ADDRESS", address.format(port=free_port()))
    place: Any = None
    with pytest.raises(error, match=said), attach(run_info(tmp_path), place):
        pass


def test_the_limit_of_silence_is_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert silence_s() == 1800
    monkeypatch.setenv("ASTUNER_VERL_SILENCE_S", "90")
    assert silence_s() == 90
    for wrong in ("soon", "0"):
        monkeypatch.setenv("ASTUNER_VERL_SILENCE_S", wrong)
        with pytest.raises(UsageError, match="ASTUNER_VERL_SILENCE_S"):
            silence_s()


@pytest.mark.parametrize("own", [None, "mine"])
def test_the_http_servers_that_verl_starts_want_a_key(own: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    from astuner_verl.cluster import KEY, _connect

    if own is None:
        monkeypatch.delenv(KEY, raising=False)
    else:
        monkeypatch.setenv(KEY, own)
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(ray, "init", lambda **words: asked.append(words))
    for _ in range(2):
        _connect("127.0.0.1:1", "cuda", "namespace")
    keys = [words["runtime_env"]["env_vars"][KEY] for words in asked]
    assert keys == [own, own] if own else len({*keys}) == 2 and min(map(len, keys)) == 64


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_engines_send_no_statistics(device: Any) -> None:
    assert build_environment(device)["VLLM_NO_USAGE_STATS"] == "1"
