"""The option `--gpus`: GPUs that are not in this machine."""

from __future__ import annotations

import re
from typing import Any

import click

GIGABYTE = 10**9


class _Gpus(click.ParamType[tuple[int, int]]):
    """`8x80`: their number in each node, and the gigabytes of each."""

    name = "NxGB"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Return the number and the bytes of each."""
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", value)
        if found is None:
            self.fail(f"{value!r}: write their number in a node and the gigabytes of each, as in 8x80", param, ctx)
        return int(found[1]), int(found[2]) * GIGABYTE


GPUS = _Gpus()
