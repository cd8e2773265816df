"""Every silent difference between servers is measured, and what cannot be trained on is refused with the measurement."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from tinker import types
from tinker_double import Behaviour, ServiceDouble
from tinker_double.training import TrainingClientDouble

from astuner.contract.errors import ConfigError
from astuner_tinker import probe
from astuner_tinker.options import Options
from astuner_tinker.probe import find_facts, read_facts
from astuner_tinker.service import Server, Service

BEHAVIOURS = {
    "hosted": Behaviour(),
    "hatchery": Behaviour.hatchery(),
    "skyrl": Behaviour.skyrl(),
    "rows of a call": Behaviour(within="rows"),
    "tokens of all calls": Behaviour(within="tokens", across="averages"),
    "without weights": Behaviour(within="tokens", weights="refused"),
}


def open_service(root: Path, model: Path, behaviour: Behaviour, **options: Any) -> tuple[Service, list[str]]:
    said: list[str] = []
    control: Any = SimpleNamespace(stop=False, notify=lambda text, level="warning": said.append(text))
    server = Server(name="unknown", url=f"http://{root.name}.invalid", title="double")
    double = ServiceDouble(root, behaviour, base_models=[str(model)])
    return Service(double, server, "0.24.1", Options(rank=4, **options), control, str(model), "run"), said


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_what_a_server_does_is_found(tmp_path: Path, tiny_model: Path, name: str) -> None:
    behaviour = BEHAVIOURS[name]
    facts = find_facts(open_service(tmp_path, tiny_model, behaviour)[0])
    expected = {
        "within": behaviour.within,
        "across": behaviour.across,
        "weights": behaviour.weights == "honoured",
        "logprobs": behaviour.logprobs,
        "greedy_at_one": behaviour.greedy_at_one,
        "whole_top_k": 1000 if behaviour.default_top_k else -1,
        "stops": not behaviour.ignores_stop_ids,
        "frozen": not behaviour.live_snapshots,
        "clips": behaviour.honours_grad_clip,
        "repeats": True,
        "exact_resume": behaviour.exact_resume,
    }
    assert {field: getattr(facts, field) for field in expected} == expected
    assert facts.mismatch < 1e-4


def test_a_measurement_is_kept_until_the_server_changes(tmp_path: Path, tiny_model: Path) -> None:
    service, said = open_service(tmp_path / "server", tiny_model, Behaviour())
    facts = find_facts(service)
    before = service.client.counts["forward_backward_requests"]
    assert find_facts(service) == facts == read_facts(service.server.url, str(tiny_model), "0.24.1")
    assert service.client.counts["forward_backward_requests"] == before
    assert len(said) == 1
    service.server = evolve(service.server, title="double 2")
    assert find_facts(service).server == "double 2"
    assert len(said) == 2


def test_a_measurement_is_forgotten_after_days(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, _ = open_service(tmp_path / "server", tiny_model, Behaviour())
    find_facts(service)
    monkeypatch.setattr(probe, "VALID", timedelta(0))
    assert read_facts(service.server.url, str(tiny_model), "0.24.1") is None


def break_passes(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    original = TrainingClientDouble._step

    def step(client: TrainingClientDouble, settings: Any) -> Any:
        for parameter in client.model.parameters.values():
            if parameter.grad is not None:
                parameter.grad = change(parameter.grad)
        return original(client, settings)

    monkeypatch.setattr(TrainingClientDouble, "_step", step)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda gradient: -gradient, "made the answer less likely"),
        (lambda gradient: gradient / (gradient.norm() + 1e-12) * 1e-3, "fits no known way"),
    ],
    ids=["the wrong way", "always alike"],
)
def test_a_server_that_nothing_can_be_trained_on(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch, change: Any, says: str
) -> None:
    break_passes(monkeypatch, change)
    with pytest.raises(ConfigError, match=says):
        find_facts(open_service(tmp_path, tiny_model, Behaviour())[0])


def test_who_knows_better_says_so(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_passes(monkeypatch, lambda gradient: gradient / (gradient.norm() + 1e-12) * 1e-3)
    facts = find_facts(open_service(tmp_path, tiny_model, Behaviour(), reduction="tokens")[0])
    assert facts.within == "tokens"


def test_log_probabilities_of_another_model_are_refused(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = TrainingClientDouble._pass

    def shift(*args: Any, **options: Any) -> Any:
        found = original(*args, **options)
        for one in found.loss_fn_outputs:
            one["logprobs"] = types.TensorData.from_torch(one["logprobs"].to_torch() - 2.0)
        return found

    monkeypatch.setattr(TrainingClientDouble, "_pass", shift)
    with pytest.raises(ConfigError, match="sampler and its trainer differ by 2 nats"):
        find_facts(open_service(tmp_path, tiny_model, Behaviour())[0])
