#!/usr/bin/env bash
# verl 0.9.1: two of its policy losses take `loss_agg_mode` and do not use it, so the key changes nothing and nobody says so.
#
# `actor.loss_agg_mode` says how the losses of tokens become one number; `seq-mean-token-sum-norm` is Dr. GRPO's, `token-mean`
# DAPO's. With `actor.policy_loss.loss_mode: sapo` or `geo_mean` the loss is always the mean over sequences of their means. The
# docstring of `geo_mean` has it as "not used", that of `sapo` recommends a value. So a comparison of losses "with the same
# aggregation" is none: long and short answers weigh differently in each. The other losses use the key.
#
# Seen with torch 2.13.0 and Python 3.11.7 on Linux, 30 November 2026, for an answer of four tokens and one of one token:
#   vanilla  token-mean -0.5523, seq-mean-token-mean 0.2731, seq-mean-token-sum -1.3806
#   gspo     token-mean -0.5768, seq-mean-token-mean 0.2578, seq-mean-token-sum -1.4419
#   cispo    token-mean 0.6380, seq-mean-token-mean 0.1737, seq-mean-token-sum 1.5950
#   sapo     token-mean 0.1927, seq-mean-token-mean 0.1927, seq-mean-token-sum 0.1927
#   geo_mean token-mean 0.2718, seq-mean-token-mean 0.2718, seq-mean-token-sum 0.2718
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
# Its losses need these alone of its dependencies.
"$work/venv/bin/pip" install --quiet --no-deps "verl==0.9.1" 2>/dev/null
"$work/venv/bin/pip" install --quiet "torch==2.13.0" numpy omegaconf packaging ray tensordict transformers codetiming orjson 2>/dev/null
cat >"$work/compare.py" <<'PYTHON'
import torch
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.workers.config import ActorConfig

MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum")
mask = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
before = torch.full((2, 4), -1.0)
tokens = {
    "old_log_prob": before,
    "log_prob": before + torch.tensor([[0.1, 0.2, -0.1, 0.3], [0.5, 0.0, 0.0, 0.0]]),
    "advantages": torch.tensor([[1.0] * 4, [-1.0] * 4]),
    "response_mask": mask,
}
bounds = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.2, "clip_ratio_c": 3.0}
config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, **bounds)
alike = set()
for name in ("vanilla", "gspo", "cispo", "sapo", "geo_mean"):
    found = [float(get_policy_loss_fn(name)(**tokens, loss_agg_mode=mode, config=config)[0]) for mode in MODES]
    print(f"{name:8} {', '.join(f'{mode} {value:.4f}' for mode, value in zip(MODES, found))}")
    if len(set(found)) == 1:
        alike.add(name)
assert alike == {"sapo", "geo_mean"}, alike
PYTHON
"$work/venv/bin/python" "$work/compare.py" 2>/dev/null || exit 1
