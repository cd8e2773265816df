#!/usr/bin/env bash
# torch 2.13.0, CPU, float32: a product of fewer than 400 multiplications in `torch.bmm` has other bits than the same rows have in a
# larger one, or in `torch.mm`.
#
# Below rows x inner x columns = 400 each element is the plain sum in order, with a rounding after each product and each addition;
# from 400 on it is not. So the score of a query over 16 keys of dimension 4 changes its last bits when the batch of queries grows
# from six rows to seven: padding rows to a multiple of 4, which is enough for larger products, is not enough here.
#
# Seen with Python 3.11.7 on Linux (x86_64, AVX2), 29 November 2026, with 8 seeds of 4 x 16, 10 x 10 and 8 x 12 (inner x columns):
#   equal to the plain sum: under the limit 24 of 24, from it on 2 of 24, torch.mm under the limit 5 of 24
# Exits with 1 if the first is not all of them, or one of the others is more than half.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "torch==2.13.0" "numpy==2.4.6"
"$work/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
import torch


def add_in_order(left, right):
    out = np.zeros((left.shape[0], right.shape[1]), np.float32)
    for inner in range(left.shape[1]):
        out += left[:, inner : inner + 1] * right[inner : inner + 1]
    return out


torch.set_num_threads(1)
below = above = matrix = tried = 0
for seed in range(8):
    draw = np.random.default_rng(seed)
    for inner, columns in ((4, 16), (10, 10), (8, 12)):
        limit = -(-400 // (inner * columns))
        left, right = draw.random((limit, inner), np.float32), draw.random((inner, columns), np.float32)
        expected = add_in_order(left, right)
        rows, other = torch.from_numpy(left), torch.from_numpy(right)
        tried += 1
        below += np.array_equal(torch.bmm(rows[None, :-1], other[None])[0], expected[:-1])
        above += np.array_equal(torch.bmm(rows[None], other[None])[0], expected)
        matrix += np.array_equal(rows[:-1] @ other, expected[:-1])
shown = f"under the limit {below} of {tried}, from it on {above} of {tried}, torch.mm under the limit {matrix} of {tried}"
print(f"equal to the plain sum: {shown}")
sys.exit(below < tried or 2 * max(above, matrix) > tried)
PYTHON
