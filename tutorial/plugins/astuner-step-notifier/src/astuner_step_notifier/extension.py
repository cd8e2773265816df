"""The extension: posts the events of a run to a webhook."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import ge, gt

from astuner import hookimpl
from astuner.contract.protocols import RunInfo
from astuner.contract.schema import StepReport, ValidationReport
from astuner_step_notifier.poster import Poster

LAST_WAIT_S = 5.0
"""How long a run waits at its end for pending messages."""

FIGURES = {"reward/mean": "reward {:.3f}", "success/rate": "success {:.1%}"}

Happening = Literal["step", "validation", "checkpoint", "run_finished"]


def _is_web(instance: Any, attribute: Attribute[str | None], value: str | None) -> None:
    # The message leaves out the value, which is a secret.
    if value and not value.startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")


class StepNotifierHooks:
    """Posts steps, validations, checkpoints and the end of a run as `{"text": …}`."""

    @frozen(kw_only=True)
    class Options:
        """What a YAML sets in `plugins.options.step_notifier`."""

        secret_url: str | None = field(default=None, repr=False, validator=_is_web)
        """The webhook. Anyone who knows it can post, so take it from the environment: `${oc.env:STEP_NOTIFIER_URL}`.
        Without it nothing is posted."""
        every_n_steps: int = field(default=1, validator=ge(1))
        """Posts every n-th step; validations, checkpoints and the end are always posted."""
        events: tuple[Happening, ...] = ("step", "validation", "checkpoint", "run_finished")
        """What is posted."""
        timeout_s: float = field(default=5.0, validator=gt(0))
        """The longest time for one post."""

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or self.Options()
        self._poster: Poster | None = None
        self._run = "run"

    @hookimpl
    def astuner_run_started(self, run_info: RunInfo) -> None:
        """Learn the name of the run."""
        self._run = f"{run_info.project_name}/{run_info.experiment_name}"

    @hookimpl
    def astuner_step_finished(self, report: StepReport) -> None:
        """Post each n-th step."""
        if report.step % self._options.every_n_steps == 0:
            self._post("step", f"step {report.step}{_figures(report.metrics, '')}")

    @hookimpl
    def astuner_validation_finished(self, report: ValidationReport) -> None:
        """Post a validation."""
        self._post("validation", f"validation after step {report.step}{_figures(report.metrics, 'val/')}")

    @hookimpl
    def astuner_checkpoint_saved(self, step: int, path: Path) -> None:
        """Post a checkpoint."""
        self._post("checkpoint", f"checkpoint of step {step} saved: {path.name}")

    @hookimpl
    def astuner_run_finished(self, exit_code: int) -> None:
        """Post how the run ended, and wait a little for pending messages."""
        ending = {0: "finished", 130: "interrupted"}.get(exit_code, f"failed with exit code {exit_code}")
        self._post("run_finished", ending)
        if self._poster is not None:
            lost = self._poster.close(wait_s=LAST_WAIT_S)
            self._poster = None
            if lost:
                _say(f"{lost} messages were not posted")

    def _post(self, happening: Happening, text: str) -> None:
        if not self._options.secret_url or happening not in self._options.events:
            return
        if self._poster is None:
            self._poster = Poster(self._options.secret_url, timeout_s=self._options.timeout_s, say=_say)
        self._poster.post(f"{self._run}: {text}")


def _figures(metrics: Any, prefix: str) -> str:
    found = [shown.format(metrics[prefix + name]) for name, shown in FIGURES.items() if prefix + name in metrics]
    return f": {', '.join(found)}" if found else ""


def _say(text: str) -> None:
    print(f"step_notifier: {text}", file=sys.stderr)
