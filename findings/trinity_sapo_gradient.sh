#!/usr/bin/env bash
# Trinity-RFT 0.6.0: the loss `sapo` weighs a token the more, the further the policy has moved from where it was sampled.
#
# SAPO (arXiv 2511.20347) maximises A·f(r) with f(r) = σ(τ(r - 1))·4/τ and r = π/π_old, so a token's gradient has the weight
# f'(r)·r = 4σ(1 - σ)·r: 1 where nothing has moved, and towards 0 far away, which is what replaces the clip. Trinity detaches
# f(r) and multiplies it by A·log π instead. The weight is then f(r) itself: 2/τ where nothing has moved, rising to 4/τ. So the
# steps are twice as long, or more, and what should fade counts most. verl 0.9.1 and TRL 1.16 differentiate the gate.
#
# Seen with torch 2.13.0 and Python 3.11.7 on Linux, 30 November 2026, for A = 1, τ = 1:
#   r = 0.368: 1.388, of the paper 0.333
#   r = 1.000: 2.000, of the paper 1.000
#   r = 2.718: 3.392, of the paper 1.402
#   r = 7.389: 3.993, of the paper 0.049
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
# Its loss needs these alone of its dependencies.
"$work/venv/bin/pip" install --quiet --no-deps "trinity-rft==0.6.0" 2>/dev/null
"$work/venv/bin/pip" install --quiet "torch==2.13.0" numpy omegaconf ray safetensors 2>/dev/null
cat >"$work/weigh.py" <<'PYTHON'
import torch
from trinity.algorithm.policy_loss_fn.sapo_policy_loss import SAPOPolicyLossFn

loss = SAPOPolicyLossFn(tau_pos=1.0)
found = []
for log_ratio in (-1.0, 0.0, 1.0, 2.0):
    logp = torch.tensor([[log_ratio - 1.0]], requires_grad=True)
    one = torch.ones(1, 1)
    value, _ = loss(logprob=logp, old_logprob=torch.tensor([[-1.0]]), action_mask=one, advantages=one)
    value.backward()
    ratio = torch.tensor(log_ratio).exp().requires_grad_()
    (torch.sigmoid(ratio - 1) * 4).backward()
    weight, paper = -logp.grad.item(), (ratio.grad * ratio).item()
    print(f"r = {ratio.item():.3f}: {weight:.3f}, of the paper {paper:.3f}")
    found.append((weight, paper))
rising = all(before < after for (before, _), (after, _) in zip(found, found[1:]))
assert rising and abs(found[1][0] - 2 * found[1][1]) < 1e-6, "the weights have changed"
PYTHON
"$work/venv/bin/python" "$work/weigh.py" || exit 1
