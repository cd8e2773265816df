"""What a run has asked of the server, in tokens and by prices in dollars."""

from __future__ import annotations

import time
import tomllib
from importlib import resources
from typing import Any

from attrs import define, field

from astuner.contract.errors import RunFailed
from astuner.contract.protocols import RunInfo
from astuner.runs.store.directory import RunDirectory
from astuner_tinker.options import Options, Prices, find_url

KINDS = ("prefill", "sample", "train")
STATE = "tinker_tokens"
"""The field of the run's state with the tokens so far."""

WRITE_S = 2.0
"""How old what is written down may be while episodes are played."""


def find_prices(options: Options, base_model: str) -> tuple[Prices | None, str]:
    """Return the prices that count, and where they are from; None for a server or a model of which none are known."""
    if options.prices is not None:
        return options.prices, "in tinker.prices"
    models = tomllib.loads(resources.files(__package__).joinpath("prices.toml").read_text(encoding="utf-8"))["models"]
    if find_url(options) is not None or base_model not in models:
        return None, ""
    known = models[base_model]
    return Prices(**{kind: known[kind] for kind in KINDS}), f"of {known['date']}"


@define(eq=False)
class Ledger:
    """Counts tokens, of earlier attempts of the run too."""

    directory: RunDirectory
    prices: Prices | None
    limit: float | None
    kept: bool
    """Whether anything is written down: a trial writes nothing into its directory."""
    tokens: dict[str, int] = field(factory=lambda: dict.fromkeys(KINDS, 0))
    _reported: dict[str, int] = field(factory=dict, init=False)
    _written: float = field(default=0.0, init=False)

    @classmethod
    def open(cls, run: RunInfo, options: Options, base_model: str) -> Ledger:
        """Go on from what the run's state says; of a run that begins, from nothing."""
        directory = RunDirectory(run.directory)
        before = directory.state.get(STATE, {}) if run.attempt > 1 else {}
        tokens = {kind: int(before.get(kind, 0)) for kind in KINDS}
        ledger = cls(directory, find_prices(options, base_model)[0], options.max_spend, run.attempt > 0, tokens)
        ledger._reported = dict(tokens)
        return ledger

    @property
    def cost(self) -> float:
        """In dollars; 0 where no prices are known."""
        prices = self.prices or Prices()
        return sum(count * float(getattr(prices, kind)) for kind, count in self.tokens.items()) / 1e6

    @property
    def is_spent(self) -> bool:
        """Whether the limit is reached."""
        return self.limit is not None and self.cost >= self.limit

    def check(self) -> None:
        """Raise `RunFailed` if the limit is reached."""
        if self.is_spent:
            spent = f"${self.cost:.2f} are spent, of tinker.max_spend: {self.limit:g}"
            raise RunFailed(f"{spent}. The last whole step is saved; raise the limit and continue with --resume", resumable=True)

    def add(self, **counts: int) -> None:
        """Count tokens by kind."""
        for kind, count in counts.items():
            self.tokens[kind] += count
        if time.monotonic() - self._written > WRITE_S:
            self.write()

    def write(self) -> None:
        """Write down what there is, so that a run that is killed goes on counting from it."""
        self._written = time.monotonic()
        if self.kept:
            self.directory.write_state(**{STATE: dict(self.tokens)})

    def take_metrics(self) -> dict[str, float]:
        """Return the tokens since the last call, and the cost of the whole run so far."""
        found = {f"tinker/tokens_{kind}": float(count - self._reported.get(kind, 0)) for kind, count in self.tokens.items()}
        self._reported = dict(self.tokens)
        self.write()
        return {**found, **({"tinker/cost": self.cost} if self.prices is not None else {})}


def bound_step_cost(run: RunInfo, prices: Prices) -> float:
    """Return what a training step costs at most where each episode is one call: every context is full, and trained."""
    config = run.config
    tokens = config.data.train_batch_size * config.rollout.num_repeat * config.rollout.max_model_len
    return tokens * (max(prices.prefill, prices.sample) + prices.train) / 1e6


class SpendControl:
    """The control of a run that stops at the limit too, so that the loop saves its last whole step."""

    def __init__(self, control: Any, ledger: Ledger) -> None:
        """Pass everything else on."""
        self._control, self._ledger = control, ledger

    @property
    def stop(self) -> bool:
        """Whether the user or the limit ends the run."""
        return self._control.stop or self._ledger.is_spent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._control, name)
