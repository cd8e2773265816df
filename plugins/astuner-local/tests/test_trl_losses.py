"""A file of TRL has the same loss and gradient here: against the functions of TRL 1.16 itself."""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attrs import evolve

from astuner.contract.protocols import TrainedTokens
from astuner.runs.training import Correction, LossOptions, compute_token_shares, token_terms
from astuner.settings.config.model import Config
from astuner.settings.config.structuring import get_converter
from astuner.settings.plugins.options import build_options
from astuner_local.trl_importer import TrlImporter

LENGTHS = (0, 4, 1, 3, 2, 2, 0, 3)
"""Trained tokens of the answers; 0 for one that was cut off, with `mask_truncated_completions`."""
ADVANTAGES = (-1.05, 0.15, 1.35, 1.35, -1.05, 0.15, -1.05, 0.15)
LONGEST = 6
BATCH = {"per_device_train_batch_size": 8, "num_generations": 8, "mask_truncated_completions": True}
CISPO = {"loss_type": "cispo", "epsilon_high": 1.5}
SEQUENCE = {"importance_sampling_level": "sequence", "epsilon": 0.05}


@cache
def read_trainer(path: str = "trainer/grpo_trainer.py", name: str = "GRPOTrainer") -> ast.ClassDef:
    """Return the source of a trainer of TRL, whose imports need not be installed."""
    found = find_spec("trl")
    if found is None or found.origin is None:
        pytest.skip("needs the files of trl 1.16: pip install --no-deps trl==1.16.0")
    source = (Path(found.origin).parent / path).read_text(encoding="utf-8")
    return next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name)


def method(name: str, trainer: ast.ClassDef | None = None) -> ast.FunctionDef:
    body = (trainer or read_trainer()).body
    return next(node for node in body if isinstance(node, ast.FunctionDef) and node.name == name)


def execute(nodes: list[Any], **names: Any) -> dict[str, Any]:
    exec(compile(ast.Module(body=nodes, type_ignores=[]), "trl", "exec"), names)
    return names


@pytest.fixture(scope="module")
def batch() -> SimpleNamespace:
    draws = torch.Generator().manual_seed(7)
    old = -torch.rand((len(LENGTHS), LONGEST), generator=draws)
    return SimpleNamespace(
        old=old,
        logp=old + 0.3 * torch.randn(old.shape, generator=draws),
        sampler=old + 0.4 * torch.randn(old.shape, generator=draws),
        entropy=torch.rand(old.shape, generator=draws),
        mask=torch.arange(LONGEST) < torch.tensor(LENGTHS).unsqueeze(1),
    )


def compute_theirs(
    file: Mapping[str, Any], batch: SimpleNamespace, trainer_class: ast.ClassDef | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the loss of TRL's own function, and its gradient at the log-probabilities."""
    high = file.get("epsilon_high")
    args = SimpleNamespace(delta=file.get("delta"), sapo_temperature_pos=file.get("sapo_temperature_pos", 1.0))
    args.sapo_temperature_neg, args.steps_per_generation, args.use_bias_correction_kl = 1.05, 1, False
    leaf, mask = batch.logp.clone().requires_grad_(), batch.mask.int()
    trainer = SimpleNamespace(
        args=args,
        loss_type=file.get("loss_type", "dapo"),
        importance_sampling_level=file.get("importance_sampling_level", "token"),
        epsilon_low=file.get("epsilon", 0.2),
        epsilon_high=file.get("epsilon", 0.2) if high is None else high,
        model=SimpleNamespace(training=True),
        beta=0.0,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        use_vllm=file.get("use_vllm", False),
        vllm_importance_sampling_correction=file.get("vllm_importance_sampling_correction", True),
        vllm_importance_sampling_mode=file.get("vllm_importance_sampling_mode", "sequence_mask"),
        vllm_importance_sampling_clip_max=file.get("vllm_importance_sampling_clip_max", 3.0),
        vllm_importance_sampling_clip_min=file.get("vllm_importance_sampling_clip_min"),
        max_completion_length=LONGEST,
        aux_loss_enabled=False,
        current_gradient_accumulation_steps=1,
        entropy_coef=file.get("entropy_coef", 0.0),
        use_adaptive_entropy=False,
        _entropy_bonus_enabled=bool(file.get("entropy_coef")),
        _metrics={"train": defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *args, **kwargs: (leaf, batch.entropy, None),
        accelerator=SimpleNamespace(
            num_processes=1, sync_gradients=True, gather=lambda values: values, reduce=lambda values, reduction: values
        ),
    )
    inputs = {
        "prompt_ids": mask[:, :1],
        "prompt_mask": mask[:, :1],
        "completion_ids": mask,
        "completion_mask": mask,
        "advantages": torch.tensor(ADVANTAGES),
        "old_per_token_logps": batch.old,
        "num_items_in_batch": mask.sum(),
    }
    if trainer.use_vllm and trainer.vllm_importance_sampling_correction:
        inputs["importance_sampling_ratio"] = compute_their_weights(trainer, batch, mask)
    functions = execute([method("_compute_loss", trainer_class)], torch=torch, math=math, nanmin=torch.min, nanmax=torch.max)
    loss = functions["_compute_loss"](trainer, SimpleNamespace(training=True), inputs)
    return loss.detach(), torch.autograd.grad(loss, leaf)[0]


def compute_their_weights(trainer: Any, batch: SimpleNamespace, mask: torch.Tensor) -> Any:
    """Run the block of the method that plays and scores, in which TRL computes the importance weights."""
    blocks = [node for node in ast.walk(method("_generate_and_score_completions")) if isinstance(node, ast.If)]
    block = next(node for node in blocks if is_about_vllm(node) and "per_token_logps_diff =" in ast.unparse(node))
    names = {"completion_mask": mask, "tool_mask": None, "old_per_token_logps": batch.old, "torch": torch, "math": math}
    return execute([block], **names, sampling_per_token_logps=batch.sampler, self=trainer)["vllm_importance_sampling_ratio"]


def is_about_vllm(node: ast.If) -> bool:
    return ast.unparse(node.test) == "self.use_vllm and self.vllm_importance_sampling_correction"


def read_options(file: Mapping[str, Any]) -> tuple[LossOptions, Config]:
    """Return what a run of the translated file minimises."""
    translated = TrlImporter().translate({**file, "max_completion_length": LONGEST})
    config = get_converter().structure({**translated.roots["astuner"]}, Config)
    algorithm = config.trainer_common.algorithm
    points = entry_points(group="astuner.losses", name=algorithm.policy_loss)
    if not points:
        pytest.skip(f"the loss {algorithm.policy_loss} is not installed")
    (point,) = points
    cls = point.load()
    options = build_options(cls, algorithm.sections.get(algorithm.policy_loss, {}), key=algorithm.policy_loss)
    loss = cls.from_run(options, SimpleNamespace(config=config)) if hasattr(cls, "from_run") else cls(options)
    coeff = algorithm.entropy_ctrl.coeff
    return LossOptions(policy_loss=loss, correction=Correction.of(algorithm), entropy_coeff=coeff), config


def compute_ours(file: Mapping[str, Any], batch: SimpleNamespace) -> tuple[torch.Tensor, torch.Tensor]:
    options, config = read_options(file)
    return minimise(options, config, batch)


def minimise(options: LossOptions, config: Config, batch: SimpleNamespace) -> tuple[torch.Tensor, torch.Tensor]:
    rows: Any = [
        SimpleNamespace(group="g", sample=SimpleNamespace(episode_id=str(number), agent="a", trained=length))
        for number, length in enumerate(LENGTHS)
    ]
    mode = config.trainer_common.loss_agg_mode or "token-mean"
    shares = torch.tensor(compute_token_shares(rows, mode, config.data.max_response_length))
    leaf, mask, samples = batch.logp.clone().requires_grad_(), batch.mask, batch.mask.nonzero()[:, 0]
    logp, shares = leaf[mask], shares[samples]
    tokens = TrainedTokens(
        logp=logp.detach(),
        old=batch.old[mask],
        sampler=batch.sampler[mask],
        advantages=torch.tensor(ADVANTAGES)[samples],
        samples=samples.unique_consecutive(return_inverse=True)[1],
    )
    loss = token_terms(tokens, shares=shares, options=options).add_up(logp, shares)
    loss = loss - options.entropy_coeff * batch.entropy[mask].dot(shares)
    return loss.detach(), torch.autograd.grad(loss, leaf)[0]


VLLM = {"use_vllm": True}
MODES = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")
FILES: list[dict[str, Any]] = [
    {},
    *({"loss_type": kind} for kind in ("grpo", "dr_grpo", "dapo", "bnpo", "luspo", "sapo")),
    CISPO,
    {"epsilon": 0.1},
    {"epsilon": 0.1, "epsilon_high": None},
    {"epsilon": 0.1, "epsilon_high": 0.3, "delta": 1.4},
    {"delta": None, "epsilon": 0.01},
    {"loss_type": "sapo", "epsilon": 0.3, "sapo_temperature_pos": 0.5},
    *({"loss_type": kind, **SEQUENCE} for kind in ("grpo", "dr_grpo", "dapo", "bnpo", "luspo")),
    {"importance_sampling_level": "sequence", "epsilon": 0.02, "epsilon_high": 0.1},
    {"importance_sampling_level": "sequence"},
    VLLM,
    {**VLLM, "vllm_importance_sampling_correction": False},
    *({**VLLM, "vllm_importance_sampling_mode": mode, "vllm_importance_sampling_clip_max": 1.2} for mode in MODES),
    *(
        {**VLLM, "vllm_importance_sampling_mode": mode, "vllm_importance_sampling_clip_min": 0.8, "loss_type": "grpo"}
        for mode in ("token_mask", "sequence_mask")
    ),
    {
        **VLLM,
        "vllm_importance_sampling_mode": "token_mask",
        "vllm_importance_sampling_clip_max": None,
        "vllm_importance_sampling_clip_min": 0.9,
    },
    {**VLLM, **SEQUENCE, "loss_type": "grpo", "vllm_importance_sampling_clip_max": 1.5},
    {"vllm_importance_sampling_mode": "token_mask"},
    {"entropy_coef": 0.1},
    {**CISPO, "entropy_coef": 0.1},
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file).strip("{}") or "defaults")
def test_a_file_of_trl_has_its_loss_and_its_gradient(file: dict[str, Any], batch: SimpleNamespace) -> None:
    (ours, gradient), (theirs, expected) = compute_ours({**BATCH, **file}, batch), compute_theirs(file, batch)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    assert torch.allclose(gradient, expected, rtol=1e-4, atol=1e-7)
    assert expected.abs().max() > 1e-4


def test_the_geometric_mean_of_a_sample_is_that_of_its_trainer(batch: SimpleNamespace) -> None:
    """No file of TRL names it: it is a trainer of its own."""
    gmpo = pytest.importorskip("astuner_algorithms.losses").Gmpo
    file = {**BATCH, "loss_type": "grpo", "epsilon": 0.1, "epsilon_high": 0.3, "mask_truncated_completions": False}
    options, config = read_options(file)
    options = evolve(options, policy_loss=gmpo(gmpo.Options(clip_log_ratio_low=0.1, clip_log_ratio_high=0.3)))
    ours, gradient = minimise(options, config, batch)
    theirs, expected = compute_theirs(file, batch, read_trainer("experimental/gmpo/gmpo_trainer.py", "GMPOTrainer"))
    # There the mean of no log-ratio is 0, and a masked sample adds minus its advantage: a constant.
    constant = -sum(advantage for advantage, length in zip(ADVANTAGES, LENGTHS, strict=True) if not length) / len(LENGTHS)
    assert ours.item() + constant == pytest.approx(theirs.item(), rel=1e-5)
    assert torch.allclose(gradient, expected, rtol=1e-4, atol=1e-7)
    assert expected.abs().max() > 1e-4


def test_with_the_losses_all_files_differ(batch: SimpleNamespace) -> None:
    """Otherwise a wrong translation would go unnoticed."""
    losses = [round(compute_theirs(file, batch)[0].item(), 6) for file in FILES[:8]]
    assert len(set(losses)) >= 6
