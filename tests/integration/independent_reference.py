"""A second trainer, written against the papers: plain forwards of single calls in float64, everything else by hand.

It reads what a run recorded (calls with their ids, rewards, checkpoints) and shares no code with the trainer. Only new adapters
come from the trainer's own loader, since they are drawn at random.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from attrs import define, field
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from astuner.runs.store.codec import dump_episode, load_episode
from astuner.runs.store.store_lines import read_records

EXACT = torch.float64
Owner = tuple[str, str]


@define
class SampledCall:
    """The tokens that one call sampled."""

    owner: Owner
    group: str
    prefix: list[int]
    output: list[int]
    sampler: Tensor
    old: Tensor
    reference: Tensor
    advantages: Tensor = field(factory=lambda: torch.zeros(0))


@define
class Distance:
    """How far the run's checkpoint lies from the reference's weights after a step, relative to how far the step moved them."""

    relative: float
    moved: float
    norms: list[float]


class IndependentReference:
    """Repeats the steps of a run, each from the run's own weights, with moments of its own."""

    def __init__(self, record: Path, base: Path, order: list[str]) -> None:
        """Take the record of a run, the model that it began with, and its tasks in the order of the file."""
        whole = yaml.safe_load((record / "config.yaml").read_text(encoding="utf-8"))["resolved"]
        self.config = whole.get("astuner", whole)
        self.trainer, self.rollout = self.config["trainer_common"], self.config["rollout"]
        self.algorithm = self.trainer["algorithm"]
        self.record, self.order = record, {task: place for place, task in enumerate(order)}
        self.adapted = self.config["model"]["lora_rank"] > 0
        self.reference: Any = AutoModelForCausalLM.from_pretrained(base, dtype=EXACT).eval()
        self.model: Any = (
            self._load_adapted(base) if self.adapted else AutoModelForCausalLM.from_pretrained(base, dtype=EXACT).eval()
        )
        self.trained = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        self.first = {name: torch.zeros_like(p) for name, p in self.trained.items()}
        self.second = {name: torch.zeros_like(p) for name, p in self.trained.items()}
        self.updates = 0
        self.episodes: dict[str, Any] = {}
        self.verdicts: dict[str, Any] = {}
        for _, found in read_records(record / "episodes" / "train.jsonl"):
            if found["kind"] == "episode":
                self.episodes[found["episode"]["id"]] = dump_episode(load_episode(found["episode"]))
            else:
                self.verdicts |= found["verdicts"]

    def steps(self) -> Iterator[Distance]:
        """Yield the distance after each step; the next one starts from the run's checkpoint."""
        for step in sorted({episode["step"] for episode in self.episodes.values()}):
            before = {name: p.detach().clone() for name, p in self.trained.items()}
            norms = self._train(step)
            saved = self._read_checkpoint(step)
            apart = _length(saved[name] - p.detach() for name, p in self.trained.items())
            moved = _length(saved[name] - before[name] for name in self.trained)
            with torch.no_grad():
                for name, p in self.trained.items():
                    p.copy_(saved[name])
            yield Distance(apart / moved if moved else apart, moved, norms)

    def _load_adapted(self, base: Path) -> Any:
        from astuner_local.trainer.model_io import load_model

        model = self.config["model"]
        torch.manual_seed(self.config["seed"])
        rank = {name: model[name] for name in ("lora_rank", "lora_alpha", "target_modules")}
        return load_model(str(base), **rank).to(EXACT).eval()

    def _read_checkpoint(self, step: int) -> dict[str, Tensor]:
        name = "adapter_model" if self.adapted else "model"
        found = load_file(self.record / "checkpoints" / f"step_{step}" / f"{name}.safetensors")
        return {name: found[name.replace(".default", "")].to(EXACT) for name in self.trained}

    def _train(self, step: int) -> list[float]:
        calls = [call for episode in self.episodes.values() if episode["step"] == step for call in self._read_calls(episode)]
        self._weigh(calls)
        groups = sorted({call.group for call in calls}, key=self.order.__getitem__)
        count = min(self.trainer["mini_batch_num"], len(groups))
        parts: list[list[SampledCall]] = [[] for _ in range(count)]
        for call in calls:
            parts[groups.index(call.group) * count // len(groups)].append(call)
        return [self._update(part, self._rate(step)) for part in parts if any(call.advantages.any() for call in part)]

    def _read_calls(self, episode: Mapping[str, Any]) -> Iterator[SampledCall]:
        streams: dict[int, list[int]] = {}
        for call in sorted(episode["calls"], key=lambda call: call["index"]):
            kept = streams[call["parent"]][: call["kept"]] if call["parent"] is not None else []
            prefix = [*kept, *call["prompt_ids"]]
            streams[call["index"]] = [*prefix, *call["output_ids"]]
            if call["untrained"] is None and call["output_ids"]:
                with torch.no_grad():
                    old, reference = (self._scores(m, prefix, call["output_ids"])[0] for m in (self.model, self.reference))
                yield SampledCall(
                    owner=(episode["id"], call["agent"]),
                    group=episode["task"]["task_id"],
                    prefix=prefix,
                    output=call["output_ids"],
                    sampler=torch.tensor(call["logprobs"], dtype=EXACT),
                    old=old,
                    reference=reference,
                )

    def _scores(self, model: Any, prefix: list[int], output: list[int]) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each token of an answer, and the entropy of what it was sampled from."""
        logits = model(input_ids=torch.tensor([prefix + output])).logits[0, len(prefix) - 1 : -1] / self.rollout["temperature"]
        targets = torch.tensor(output)
        rows, entropies = [], []
        for scores, target in zip(logits, targets, strict=True):
            likely = scores.detach().sort(descending=True, stable=True).indices
            if self.rollout["top_k"] > 0:
                likely = likely[: self.rollout["top_k"]]
            above = scores.detach()[likely].softmax(0).cumsum(0).roll(1)
            above[0] = 0.0
            nucleus = likely[above < self.rollout["top_p"]]
            chosen = torch.cat([nucleus[nucleus != target], target[None]])
            logp = scores[chosen].log_softmax(0)
            rows.append(logp[-1])
            entropies.append(-(logp.exp() * logp).sum())
        return torch.stack(rows), torch.stack(entropies)

    def _weigh(self, calls: list[SampledCall]) -> None:
        """Give every call the advantages of its tokens."""
        tokens: dict[Owner, list[SampledCall]] = defaultdict(list)
        for call in calls:
            tokens[call.owner].append(call)
        rewards = {owner: float(self.verdicts[owner[0]]["reward"]) for owner in tokens}
        siblings: dict[str, list[Owner]] = defaultdict(list)
        for owner, own in tokens.items():
            siblings[own[0].group].append(owner)
        costs = {owner: torch.zeros(sum(len(call.output) for call in own), dtype=EXACT) for owner, own in tokens.items()}
        if self.algorithm["use_kl_in_reward"]:
            kind, weight = self.algorithm["kl_penalty"], self.algorithm["kl_ctrl"]["kl_coef"]
            for owner, own in tokens.items():
                costs[owner] = weight * torch.cat([_divergence(call.old - call.reference, kind) for call in own])
        if self.algorithm["adv_estimator"] == "reinforce_plus_plus":
            returns = {owner: rewards[owner] - costs[owner].flip(0).cumsum(0).flip(0) for owner in tokens}
            everything = torch.cat(list(returns.values()))
            found = {owner: (own - everything.mean()) / (everything.var() + 1e-8).sqrt() for owner, own in returns.items()}
            found = found if len(set(rewards.values())) > 1 else {owner: torch.zeros_like(own) for owner, own in returns.items()}
        else:
            found = {}
            for owners in siblings.values():
                differ = len({rewards[owner] for owner in owners}) > 1
                values = [rewards[owner] - float(costs[owner].sum()) for owner in owners]
                for owner, value in zip(owners, self._compare(values) if differ else [0.0] * len(owners), strict=True):
                    found[owner] = torch.full_like(costs[owner], value)
        for owner, own in tokens.items():
            pieces = found[owner].split([len(call.output) for call in own])
            for call, piece in zip(own, pieces, strict=True):
                call.advantages = piece

    def _compare(self, values: list[float]) -> list[float]:
        mean, n = sum(values) / len(values), len(values)
        spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1))
        match self.algorithm["adv_estimator"]:
            case "grpo":
                by = spread + 1e-6 if self.algorithm["norm_adv_by_std_in_grpo"] else 1.0
                return [(value - mean) / by for value in values]
            case "dr_grpo":
                return [value - mean for value in values]
            case "rloo":
                return [value - (sum(values) - value) / (n - 1) for value in values]
            case other:
                raise AssertionError(other)

    def _update(self, part: list[SampledCall], rate: float) -> float:
        sequences: dict[Owner, list[SampledCall]] = defaultdict(list)
        for call in part:
            sequences[call.owner].append(call)
        size = sum(len(call.output) for call in part)
        default = {"dr_grpo": "seq-mean-token-sum-norm"}.get(self.algorithm["adv_estimator"], "token-mean")
        divide: Callable[[int], float] = {
            "token-mean": lambda own: size,
            "seq-mean-token-mean": lambda own: own * len(sequences),
            "seq-mean-token-sum": lambda own: len(sequences),
            "seq-mean-token-sum-norm": lambda own: len(sequences) * self.config["data"]["max_response_length"],
        }[self.trainer["loss_agg_mode"] or default]
        self.model.zero_grad()
        for calls in sequences.values():
            (self._loss(calls).sum() / divide(sum(len(call.output) for call in calls))).backward()
        norm = _length(p.grad for p in self.trained.values())
        self._adamw(rate, min(1.0, self.trainer["grad_clip"] / (norm + 1e-6)))
        return norm

    def _loss(self, calls: list[SampledCall]) -> Tensor:
        """Return the loss of each token of an episode, whose calls are one sample here."""
        found = [self._scores(self.model, call.prefix, call.output) for call in calls]
        logp, entropy = (torch.cat(parts) for parts in zip(*found, strict=True))
        old, sampler, reference, gain = (
            torch.cat([getattr(call, name) for call in calls]) for name in ("old", "sampler", "reference", "advantages")
        )
        loss = self._policy_loss(logp, old, gain)
        apart = old - sampler
        if (most := self.algorithm["rollout_is_threshold"]) is not None:
            apart = apart.sum() if self.algorithm["rollout_is"] == "sequence" else apart
            loss = loss * apart.exp().clamp(max=most)
        loss = loss - self.algorithm["entropy_ctrl"]["coeff"] * entropy
        if self.trainer["use_kl_loss"]:
            loss = loss + self.trainer["kl_loss_coef"] * _divergence(logp - reference, self.trainer["kl_loss_type"])
        return loss

    def _policy_loss(self, logp: Tensor, old: Tensor, gain: Tensor) -> Tensor:
        ratio = (logp - old).exp()
        if self.algorithm["policy_loss"] != "ppo_clip":
            # The loss of test_independent_reference.py.
            mean, bound = (logp - old).mean().exp(), 1.001
            return -torch.minimum(mean * gain, mean.clamp(1 / bound, bound) * gain)
        low, high = 1 - self.trainer["clip_ratio_low"], 1 + self.trainer["clip_ratio_high"]
        good = torch.minimum(ratio * gain, ratio.clamp(max=high) * gain)
        bad = torch.maximum(torch.minimum(ratio * gain, ratio.clamp(min=low) * gain), self.trainer["clip_ratio_c"] * gain)
        return -torch.where(gain >= 0, good, bad)

    def _adamw(self, rate: float, scale: float) -> None:
        optim, (b1, b2) = self.trainer["optim"], self.trainer["optim"]["betas"]
        self.updates += 1
        with torch.no_grad():
            for name, p in self.trained.items():
                g = p.grad * scale
                self.first[name] = b1 * self.first[name] + (1 - b1) * g
                self.second[name] = b2 * self.second[name] + (1 - b2) * g * g
                mean, spread = self.first[name] / (1 - b1**self.updates), self.second[name] / (1 - b2**self.updates)
                p.copy_(p - rate * optim["weight_decay"] * p - rate * mean / (spread.sqrt() + 1e-8))

    def _rate(self, step: int) -> float:
        optim = self.trainer["optim"]
        peak, warm, done = optim["lr"], optim["lr_warmup_steps"], step - 1
        if done < warm:
            return float(peak * step / warm)
        gone = (done - warm) / (self.trainer["total_training_steps"] - warm)
        falls = {"constant": 1.0, "linear": 1 - gone, "cosine": (1 + math.cos(math.pi * gone)) / 2}
        return float(peak * falls[optim["lr_scheduler_type"]])


def _divergence(d: Tensor, kind: str) -> Tensor:
    k3 = (d.neg().exp() - 1 + d).clamp(max=10.0)
    return {"kl": d, "abs": d.abs(), "mse": d * d / 2, "low_var_kl": k3}[kind]


def _length(tensors: Any) -> float:
    return math.sqrt(sum(float((tensor * tensor).sum()) for tensor in tensors))
