"""The README.md of an export: what was tuned, on what, and how it was measured, from what the run has recorded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.runs.inspection.run import Run
from astuner_tools.exporting.usage_examples import format_usage

if TYPE_CHECKING:
    from astuner_tools.exporting.base_model import BaseModel

SETTINGS = (
    ("learning rate", "trainer_common.optim.lr"),
    ("schedule", "trainer_common.optim.lr_scheduler_type"),
    ("tasks a step", "data.train_batch_size"),
    ("episodes a task", "rollout.num_repeat"),
    ("temperature", "rollout.temperature"),
    ("longest turn, tokens", "rollout.max_response_length_in_one_turn"),
    ("LoRA rank", "model.lora_rank"),
    ("seed", "seed"),
)
"""Those that a reader needs to repeat the run, with the keys of the configuration."""
LIBRARIES = {"hf": "transformers", "adapter": "peft", "gguf": "gguf"}
"""As the hub names them."""


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
    base = export.base
    facts = [f"license: {base.license}"] if base.license else []
    facts += [f"base_model: {base.hub_name}"] if base.hub_name else []
    facts += [
        f"library_name: {LIBRARIES[export.kind]}",
        "pipeline_tag: text-generation",
        "tags: [astuner, reinforcement-learning]",
    ]
    parts = [
        "\n".join(["---", *facts, "---"]),
        f"# {export.name}",
        _describe_model(run, export),
        *([] if run is None else ["## Training", _format_table(("what", "value"), list(_list_training(run, export)))]),
        *([] if run is None else ["## Measured", *_describe_measures(run, export)]),
        "## Use",
        format_usage(export.kind, export.name, base.hub_name or base.name),
        "## License",
        _describe_license(base),
        f"Written by `astuner export` (astuner-core {version('astuner-core')}).",
    ]
    return "\n\n".join(parts) + "\n"


def _describe_model(run: Run | None, export: Export) -> str:
    name = export.base.name or "A model that the run does not name"
    link = f"[{name}](https://huggingface.co/{name})" if export.base.hub_name else name
    what = {"hf": "Whole weights", "adapter": "LoRA adapters", "gguf": "One GGUF file"}[export.kind]
    what += f" in {export.dtype}" if export.dtype else ""
    if run is None:
        return f"{link}, tuned on demonstrations. {what}."
    what += "" if export.step is None else f", after step {export.step}"
    return f"{link}, tuned by reinforcement learning with astuner. {what}."


def _list_training(run: Run, export: Export) -> Iterator[tuple[str, str]]:
    config, facts = run.config, run.facts
    data = (facts.get("sources") or {}).get("data") or {}
    for split in ("train", "validation"):
        if count := (data.get(split) or {}).get("tasks"):
            yield f"tasks, {split}", f"{count:,}"
    if files := [PurePath(name).name for name in data.get("files") or ()]:
        yield "task files", ", ".join(files)
    for repository, revision in (data.get("revisions") or {}).items():
        yield "data set", f"{_shorten(repository)} {_shorten(revision)}"
    yield from ((f"{kind}", ", ".join(names)) for kind in ("workflow", "judge", "estimator") if (names := _list_parts(run, kind)))
    yield (
        "steps",
        f"{export.step if export.step is not None else '?'} of {_get(config, 'trainer_common.total_training_steps') or '?'}",
    )
    for label, key in SETTINGS:
        value = _get(config, key)
        if value is not None and (label != "LoRA rank" or value):
            yield label, _shorten(value)
    if _get(config, "trainer_common.use_kl_loss"):
        yield "KL loss", _shorten(_get(config, "trainer_common.kl_loss_coef"))
    packages = {row["distribution"]: row["version"] for row in facts.get("plugins") or () if row.get("version")}
    versions = {**(facts.get("versions") or {}), **packages}
    yield "versions", ", ".join(f"{name} {number}" for name, number in versions.items())


def _list_parts(run: Run, kind: str) -> list[str]:
    if kind == "workflow":
        found = _get(run.config, "rollout.user_workflow")
        return [_shorten(found)] if isinstance(found, str) else []
    return [_shorten(row["name"]) for row in run.facts.get("plugins") or () if row.get("kind") == kind]


def _describe_measures(run: Run, export: Export) -> Iterator[str]:
    rows = [row for row in run.read_rows() if row["kind"] == "validation" and row.get("val/reward/mean") is not None]
    before = rows[:1] if rows and rows[0]["step"] == 0 else []
    after = [row for row in rows if row["step"] == export.step and row["step"] > 0]
    if not before and not after:
        yield "The run has measured neither the model before it nor this one on tasks that were not trained."
        return
    shown = [*before, *after]
    lines = [("tasks", *(f"{row.get('val/tasks', 0):,.0f}" for row in shown))]
    lines += [("episodes", *(f"{row.get('val/episodes', 0):,.0f}" for row in shown))]
    if all(row.get("val/success/rate") is not None for row in shown):
        lines.append(("success", *(_format_share(row["val/success/rate"], row.get("val/tasks", 0)) for row in shown)))
    lines.append(("mean reward", *(_format_mean(row) for row in shown)))
    heads = [f"{'before' if row['step'] == 0 else 'this model'} (step {row['step']})" for row in shown]
    yield _format_table(("validation", *heads), lines)
    yield (
        f"In brackets: 95 % intervals, each task counted once. {_describe_sampling(run.config)} The tasks are the run's "
        "validation tasks."
    )
    if not after:
        yield "This checkpoint itself was not validated: `astuner eval --checkpoint` measures it."


def _describe_sampling(config: Mapping[str, Any]) -> str:
    if not _get(config, "rollout.val_kwargs.do_sample"):
        return "Answers are greedy."
    return f"Answers are sampled at temperature {_get(config, 'rollout.val_kwargs.temperature')}."


def _format_share(share: float, count: float) -> str:
    """Return a share with its Wilson interval, as `8.3 % (4.6–14.7)`."""
    if count < 1:
        return f"{share:.1%}"
    z = 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return f"{100 * share:.1f} % ({100 * max(0.0, middle - half):.1f}–{100 * min(1.0, middle + half):.1f})"


def _format_mean(row: Mapping[str, Any]) -> str:
    mean, spread, count = row["val/reward/mean"], row.get("val/reward/std"), row.get("val/tasks") or 0
    if spread is None or count < 2:
        return f"{mean:.3f}"
    half = 1.96 * spread / math.sqrt(count)
    return f"{mean:.3f} ({mean - half:.3f}–{mean + half:.3f})"


def _describe_license(base: BaseModel) -> str:
    if base.license:
        return f"That of the base model: {base.license}."
    return "That of the base model, which its files do not name here. State it before you pass this model on."


def _get(config: Mapping[str, Any], key: str) -> Any:
    found: Any = config
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _shorten(value: object) -> str:
    """Return a value in one cell of a table; of a path on this machine its last part."""
    text = str(value)
    path = text.partition(":")[0]
    text = PurePath(path).name + text[len(path) :] if path.startswith(("/", "~", "..")) else text.removeprefix("./")
    return " ".join(text.replace("|", "\\|").split())


def _format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
