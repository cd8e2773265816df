"""The run of a stage that trains on demonstrations: what it leaves in its directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from astuner.contract.errors import AstunerError
from astuner.episodes.builtin.loggers.jsonl_logger import JsonlLogger
from astuner.runs.driver.run_facts import collect_run_facts
from astuner.runs.driver.run_outcome import RunOutcome
from astuner.runs.driver.run_request import RunRequest
from astuner.runs.store.atomic import move_into_place, write_directory
from astuner.runs.store.directory import RunDirectory
from astuner.settings.config.adapters import ADAPTER_FILE
from astuner.settings.config.loading import load_config
from astuner.settings.config.redaction import redact_text
from astuner.settings.config.show import sign_variables, to_yaml
from astuner_tools.demonstrations.warm_start import REWARD, warm_start

if TYPE_CHECKING:
    from astuner_tools.stages.planned_stage import PlannedStage


def train_on_demonstrations(stage: PlannedStage, request: RunRequest, say: Callable[[str], object]) -> RunOutcome:
    """Do what `astuner warm-start` does, and leave the model, with adapters merged, where the next stage finds it.

    It is resumed from its start: the same demonstrations give the same weights.
    """
    assert stage.demonstrations is not None
    directory = stage.directory
    # A new tiny model is not where `model.path` leads.
    loaded = load_config(request.conf, stage.overrides, request.backbone, unused=("model.path",))
    directory.open()
    try:
        facts = collect_run_facts(stage.plan) | {"demonstrations": stage.demonstrations.sign(loaded.path)}
        directory.write_run(facts)
        directory.write_config(
            given=redact_text(loaded.text),
            resolved=to_yaml(loaded),
            native={},
            environment=sign_variables(loaded),
            relative_to=loaded.directory,
        )
        directory.write_state(status="running")
        trained = directory.path / "trained"
        for leftover in (stage.model, trained):
            shutil.rmtree(leftover, ignore_errors=True)
        asked = stage.demonstrations.make_request(request.conf, trained, tuple(stage.overrides), request.backbone)
        report = warm_start(asked, say)
        if (trained / ADAPTER_FILE).is_file():
            from astuner.runs.training.export import export_model

            with write_directory(stage.model) as made:
                export_model(trained, made, merge_lora=True, dtype=None)
        else:
            move_into_place(trained, stage.model)
        steps = report.result.steps
        _log_rewards(directory, report.rewards, steps)
        directory.amend_run(total_training_steps=steps)
        directory.write_state(status="finished", step=steps)
    except KeyboardInterrupt:
        directory.write_state(status="interrupted")
        raise
    except BaseException as error:
        reason = str(error) if isinstance(error, AstunerError) else f"{type(error).__name__}: {error}"
        directory.write_state(status="failed", reason=loaded.secrets.hide(reason))
        raise
    finally:
        directory.close()
    before, after = ({} if reward is None else {REWARD: reward} for reward in report.rewards)
    lines = list(report.format_lines())
    # What to type next is the next stage.
    story = tuple(lines[: lines.index("")])
    return RunOutcome(exit_code=0, directory=directory.path, before=before or None, after=after or None, story=story)


def _log_rewards(directory: RunDirectory, rewards: tuple[float | None, float | None], steps: int) -> None:
    directory.metrics.unlink(missing_ok=True)
    logger = JsonlLogger(directory.metrics)
    for step, reward in zip((0, steps), rewards, strict=True):
        if reward is not None:
            logger.log(step, {REWARD: reward})
    logger.close()
