"""The README.md of an export: what was tuned, on what, and how it was measured, from what the run has recorded."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen
from jinja2 import Environment, StrictUndefined

from astuner.runs.inspection.run import Run
from astuner.settings.config.trees import get
from astuner_tools.markdown_text import format_table
from astuner_tools.training_facts import describe_sampling, list_facts, list_versions
from astuner_tools.validation_measures import format_mean, format_share, measure_reward, measure_success

if TYPE_CHECKING:
    from astuner_tools.exporting.base_model import BaseModel

CARD = Path(__file__).with_name("card.jinja")


@frozen(kw_only=True)
class Export:
    """What the card is of."""

    kind: str
    step: int | None
    dtype: str | None
    """None: that of the model that the run began with."""
    base: BaseModel
    name: str


def write_card(made: Path, run: Run | None, export: Export) -> None:
    """Write README.md into the directory of an export."""
    (made / "README.md").write_text(format_card(run, export), encoding="utf-8")


def format_card(run: Run | None, export: Export) -> str:
    """Return the card: the hub's index between `---`, then text. No directory of this machine and no secret is in it."""
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)  # Markdown
    facts = {"training": None} if run is None else {"training": _list_training(run, export), **_measure(run, export)}
    card = environment.from_string(CARD.read_text(encoding="utf-8"), globals={"table": format_table})
    return card.render(asdict(export, recurse=False), version=version("astuner-core"), **facts)


def _list_training(run: Run, export: Export) -> list[tuple[str, str]]:
    steps = f"{'?' if export.step is None else export.step} of {get(run.config, 'trainer_common.total_training_steps') or '?'}"
    found = [*((label, value) for label, value, _ in list_facts(run)), ("steps", steps), ("versions", list_versions(run))]
    return [(label, value.replace("|", "\\|")) for label, value in found]


def _measure(run: Run, export: Export) -> dict[str, Any]:
    """Return the table of the validations before training and of this step: `heads`, and rows, none if there was neither."""
    rows = [row for row in run.read_rows() if row["kind"] == "validation" and row.get("val/reward/mean") is not None]
    after = [row for row in rows if row["step"] == export.step and row["step"] > 0]
    shown = [*(rows[:1] if rows and rows[0]["step"] == 0 else []), *after]
    lines = [(name, *(f"{row.get(f'val/{name}', 0):,.0f}" for row in shown)) for name in ("tasks", "episodes")]
    if all(row.get("val/success/rate") is not None for row in shown):
        lines.append(("success", *(format_share(measure_success(row)) for row in shown)))
    lines.append(("mean reward", *(format_mean(measure_reward(row)) for row in shown)))
    heads = ["validation", *(f"{'before' if row['step'] == 0 else 'this model'} (step {row['step']})" for row in shown)]
    measured = {"heads": heads, "measured": lines if shown else [], "validated": bool(after)}
    return {**measured, "sampling": describe_sampling(run.config)}
