"""What a warm start has changed, as a table, and how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from astuner.contract.errors import AstunerError
from astuner.contract.protocols import WarmStartResult
from astuner.settings.config.loading import load_config


@frozen(kw_only=True)
class WarmStartReport:
    """The result of the command."""

    result: WarmStartResult
    demonstrations: Mapping[str, int]
    """How many are `trained`, and how many `held out`."""
    rewards: tuple[float | None, float | None]
    """The mean reward of the validation tasks before and after; None if there are no such tasks, or they were not played."""
    warnings: tuple[str, ...] = ()
    """What the measurements warn of, line by line."""
    out: Path
    conf: Path
    backbone: str | None
    overrides: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return what was measured, before and after."""
        fits = {
            when: {name: asdict(fit) for name, fit in fits.items()}
            for when, fits in (("before", self.result.before), ("after", self.result.after))
        }
        rewards = dict(zip(fits, self.rewards, strict=True))
        return {
            "directory": self.out,
            "demonstrations": {**self.demonstrations},
            **fits,
            "rewards": rewards,
            "warnings": self.warnings,
        }

    def format_lines(self) -> Iterator[str]:
        """Yield the lines that are shown."""
        before, after = self.result.before, self.result.after
        rows: list[tuple[str, str, str]] = [("", "before", "after")]
        for name in before:
            shown = f"{self.demonstrations[name]} {name}"
            rows.append((f"loss, {shown}", f"{before[name].loss:.3f}", f"{after[name].loss:.3f}"))
            rows.append((f"token accuracy, {shown}", f"{before[name].accuracy:.1%}", f"{after[name].accuracy:.1%}"))
        first, last = map(_format_reward, self.rewards)
        rows.append(("reward, validation tasks", first, last))
        for title, *columns in rows:
            yield f"{title:<32}" + "".join(f"{column:>10}" for column in columns)
        yield ""
        if self.warnings:
            yield from (*self.warnings, "")
        yield f"{self.out} is ready. Next:"
        model = self.out
        if self.result.merge_first:
            model = self.out.with_name(f"{self.out.name}-merged")
            yield f"  {shlex.join(['astuner', 'export', str(self.out), '--merge-lora', '--out', str(model)])}"
        others = [
            *(("--backbone", self.backbone) if self.backbone else ()),
            *(part for item in self._list_overrides(model) for part in ("--set", item)),
        ]
        chosen = ["--conf", str(self.conf), *others]
        for command in ("run", "eval"):
            yield f"  {shlex.join(['astuner', command, *chosen])}"

    def _list_overrides(self, model: Path) -> tuple[str, ...]:
        """Return what `--set` must give for a run to begin with the model: not what the YAML says already."""
        kept = tuple(item for item in self.overrides if item.partition("=")[0] not in ("model.path", "astuner.model.path"))
        try:
            named = load_config(self.conf, kept, self.backbone).config.model.path
        except AstunerError:
            named = ""  # the YAML may name a model that is not there
        same = bool(named) and Path(named).resolve() == model.resolve()
        return kept if same else (*kept, f"model.path={write_model_path(model, self.conf)}")


def write_model_path(out: Path, conf: Path) -> str:
    """Return the model as `model.path` of a configuration names it: relative to the configuration if it is below it."""
    place, home = out.resolve(), conf.resolve().parent
    return f"./{place.relative_to(home)}" if place.is_relative_to(home) else str(place)


def _format_reward(reward: float | None) -> str:
    return "-" if reward is None else f"{reward:.3f}"
