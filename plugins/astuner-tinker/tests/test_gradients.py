"""The gradient is ours, that of `astuner-local`'s trainer on the same rows, whatever the server makes of the losses of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from attrs import evolve
from tinker_double import Behaviour, ServiceDouble

import astuner_tinker.rows
from astuner.contract.schema import Sample
from astuner.runs.training import Correction, LossOptions, PpoClip
from astuner.settings.config.model import Config
from astuner_algorithms.losses import Gspo
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer
from astuner_tinker.adapter import AdapterTrainer
from astuner_tinker.options import Options
from astuner_tinker.probe import Probe, ServerFacts
from astuner_tinker.service import Server, Service

SERVERS = {
    "sum": Behaviour(),
    "tokens of a call": Behaviour(within="tokens"),
    "rows of a call": Behaviour(within="rows"),
    "tokens of all calls": Behaviour(within="tokens", across="averages"),
    "rows of all calls": Behaviour(within="rows", across="averages"),
    "sum, no weights": Behaviour(weights="refused"),
    "tokens, no weights": Behaviour(within="tokens", weights="refused"),
    "hatchery": Behaviour.hatchery(),
    "skyrl": Behaviour.skyrl(),
}


class Setting:
    """A trainer over a double, and one of `astuner-local` with the same adapters."""

    def __init__(self, root: Path, model: Path, behaviour: Behaviour, options: Options, loss: LossOptions, **common: Any) -> None:
        config = Config()
        trainer_common = evolve(config.trainer_common, grad_clip=1e6, **common)
        config = evolve(config, trainer_common=evolve(trainer_common, optim=evolve(trainer_common.optim, lr=1e-2)))
        run: Any = SimpleNamespace(config=config, user_keys=frozenset())
        control: Any = SimpleNamespace(stop=False, notify=lambda *_: None)
        server = Server(name="unknown", url="http://127.0.0.1:9", title="double")
        self.service = Service(ServiceDouble(root / "server", behaviour), server, "0.24.1", options, control, str(model), "run")
        self.facts: ServerFacts = Probe(self.service).measure("[]")
        self.client = self.service.make_training_client(seed=1)
        ledger: Any = SimpleNamespace(add=lambda **_: None)
        base = self.service.make_training_client(seed=5)
        self.trainer = AdapterTrainer(
            client=self.client,
            service=self.service,
            facts=self.facts,
            ledger=ledger,
            run=run,
            loss=loss,
            aggregation="seq-mean-token-mean",
            total_steps=10,
            score_reference=lambda samples: self.trainer.score(samples, base),
        )
        twin = ServiceDouble(root / "twin").create_lora_training_client(str(model), rank=options.rank, seed=9)
        self.twin = twin.model
        self.parameters = self.twin.parameters
        local = TrainerOptions(
            lr=1e-2,
            weight_decay=config.trainer_common.optim.weight_decay,
            grad_clip=1e6,
            mini_batch_num=config.trainer_common.mini_batch_num,
            loss_agg_mode="seq-mean-token-mean",
            policy_loss=loss.policy_loss,
            correction=loss.correction,
            use_kl_loss=loss.kl_loss_coef > 0,
            kl_loss_coef=loss.kl_loss_coef,
            kl_loss_type=loss.kl_loss_type,
        )
        self.local = Trainer(twin.model.peft_model, local)

    def compare(self, rows: Sequence[TrainRow], step: int, *, rtol: float = 1e-5) -> tuple[dict[str, float], dict[str, float]]:
        """Train both on the rows, from the same weights; the gradients of every optimizer step must agree."""
        self.twin.load(self.client.model.parameters)
        found, expected = [], []
        adam, optimizer = self.client._adam, self.local._optimizer
        original, stepped = adam.step, optimizer.step
        adam.step = lambda settings: (found.append(_copy_gradients(self.client.model.parameters)), original(settings))[1]
        optimizer.step = lambda: (expected.append(_copy_gradients(self.parameters)), stepped())[1]  # type: ignore[method-assign]
        try:
            metrics = self.trainer.update(rows, step, record=True)
            of_local = self.local.update(rows, step, record=True)
        finally:
            adam.step, optimizer.step = original, stepped
        assert len(found) == len(expected) > 0
        for own, other in zip(found, expected, strict=True):
            scale = max(float(values.abs().max()) for values in other.values())
            for name, values in own.items():
                torch.testing.assert_close(values, other[name], rtol=rtol, atol=rtol * scale, msg=name)
        return metrics, of_local


def _copy_gradients(parameters: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.zeros_like(one) if one.grad is None else one.grad.clone() for name, one in parameters.items()}


def make_rows(setting: Setting, seed: int, *, apart: float = 0.0, streams: bool = False) -> list[TrainRow]:
    """Return two groups of three rows of different lengths, some with gaps; `apart` is how far the sampler's values are off."""
    draw, samples = np.random.default_rng(seed), []
    for number in range(6):
        ids = np.array([3, 1, 4, 1, number // 3, *draw.integers(0, 60, 4 + 2 * number)], np.int32)
        mask = np.arange(len(ids)) >= 5
        mask[6 : 6 + number % 2] = False
        samples.append(
            Sample(
                episode_id=f"e{number}",
                task_id=f"g{number // 3}",
                repeat=number % 3,
                agent="agent",
                ids=ids,
                mask=mask,
                logprobs=np.zeros(len(ids), np.float32),
                calls=(0,),
            )
        )
    rows = []
    for sample, logprobs in zip(samples, setting.trainer.score(samples), strict=True):
        sample.logprobs[sample.mask] = logprobs + draw.normal(0, apart, len(logprobs)) if apart else logprobs
        more = {}
        if streams:
            names = ("likelihood", "divergence", "reference")
            more = {name: np.abs(draw.normal(size=sample.trained)) * (-3 if name == "reference" else 1) for name in names}
        rows.append(TrainRow(sample=sample, advantage=float(draw.normal()), group=sample.task_id, **more))
    return rows


@pytest.mark.parametrize("calls", ["one call", "several calls"])
@pytest.mark.parametrize("loss", ["auto", "importance_sampling", "computed"])
@pytest.mark.parametrize("server", SERVERS)
def test_the_gradient_is_that_of_local(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch, server: str, loss: Any, calls: str
) -> None:
    """Two steps, so that both matrices of an adapter have a gradient in the second."""
    if calls == "several calls":
        monkeypatch.setattr(astuner_tinker.rows, "MOST_ROWS", 2)
    setting = Setting(tmp_path, tiny_model, SERVERS[server], Options(loss=loss, rank=4), LossOptions())
    assert setting.trainer.uses_server_loss == (loss != "computed")
    for step in (1, 2):
        metrics, of_local = setting.compare(make_rows(setting, step), step)
        for name, parameter in setting.client.model.parameters.items():
            torch.testing.assert_close(parameter.detach(), setting.parameters[name].detach(), rtol=1e-3, atol=1e-4, msg=name)
        of_engine = {name: value for name, value in metrics.items() if name in of_local and not name.startswith("grad/")}
        assert of_engine == pytest.approx({name: of_local[name] for name in of_engine}, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("server", ["sum", "hatchery", "skyrl"])
@pytest.mark.parametrize(
    ("loss", "common", "apart", "streams"),
    [
        (LossOptions(), {"mini_batch_num": 2}, 0.0, False),
        (LossOptions(policy_loss=PpoClip(clip_ratio_low=0.1, clip_ratio_high=0.3)), {"mini_batch_num": 2}, 0.0, False),
        (LossOptions(policy_loss=Gspo()), {}, 0.0, False),
        (LossOptions(correction=Correction(rollout_is_threshold=1.2)), {}, 0.5, False),
        (
            LossOptions(correction=Correction(rollout_is="sequence", rollout_is_threshold=1.5, rollout_is_lower=0.5)),
            {},
            0.3,
            False,
        ),
        (LossOptions(correction=Correction(rollout_rs="seq_mean_k3", rollout_rs_threshold=0.1)), {}, 0.5, False),
        (LossOptions(kl_loss_coef=0.3, kl_loss_type="mse"), {}, 0.0, False),
        (LossOptions(), {}, 0.0, True),
    ],
    ids=["mini-batches", "other bounds", "gspo", "token TIS", "masked", "rejected", "KL in the loss", "streams"],
)
def test_what_the_server_has_no_loss_for_is_computed_here(
    tmp_path: Path, tiny_model: Path, server: str, loss: LossOptions, common: dict[str, Any], apart: float, streams: bool
) -> None:
    setting = Setting(tmp_path, tiny_model, SERVERS[server], Options(rank=4), loss, **common)
    for step in (1, 2):
        rows = make_rows(setting, step, apart=apart, streams=streams)
        metrics, of_local = setting.compare(rows, step)
        own, other = setting.trainer.take_token_values(), setting.local.take_token_values()
        assert own is not None
        assert other is not None
        for name in ("logprobs", "ratios", "rl", "ce", "ref_kl", "clips"):
            np.testing.assert_allclose(getattr(own, name), getattr(other, name), rtol=1e-3, atol=1e-4, err_msg=name)
        for name in ("loss/policy", "loss/kl", "mismatch/abs_max", "clip/low", "clip/high"):
            assert metrics[name] == pytest.approx(of_local[name], rel=1e-3, abs=1e-5)


def test_a_factor_left_out_is_seen(tmp_path: Path, tiny_model: Path) -> None:
    """What the study calls silent: a server that takes means trains something else unless its division is taken back."""
    setting = Setting(tmp_path, tiny_model, SERVERS["rows of a call"], Options(rank=4), LossOptions())
    setting.trainer.facts = evolve(setting.facts, within="sum", across="adds")
    with pytest.raises(AssertionError):
        setting.compare(make_rows(setting, 1), 1)
