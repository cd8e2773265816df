"""Writes with `swanlab`."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from astuner_loggers.writers import EpisodeText, Status, TrackedRun

_STATES: Mapping[Status, str] = {"finished": "success", "failed": "crashed", "interrupted": "aborted"}


class SwanlabWriter:
    """Numbers as charts, episodes as text, and the distribution of rewards as a bar chart."""

    def open(self, run: TrackedRun) -> str:
        """Start or continue a run; an offline one continues in a new directory under the same id."""
        import swanlab

        run_id = run.run_id or secrets.token_hex(8)
        settings = swanlab.Settings(
            interactive=False,
            # The writing process is of no interest; run.json describes the run's.
            probe=swanlab.Settings.Probe(
                hardware=False, runtime=False, requirements=False, conda=False, git=False, monitor=False
            ),
            terminal=swanlab.Settings.Terminal(proxy_type="none"),
        )
        self._run: Any = swanlab.init(
            log_dir=str(run.directory),
            mode=run.settings["mode"],
            project=run.project,
            name=run.experiment,
            id=run_id,
            resume="allow",
            workspace=run.settings["workspace"],
            tags=list(run.settings["tags"]),
            config=dict(run.parameters),
            settings=settings,
        )
        return run_id

    def forget_after(self, step: int) -> bool:
        """Values cannot be removed, and a second value of a step is ignored."""
        return False

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write numbers."""
        self._run.log(dict(metrics), step=step)

    def log_episodes(self, step: int, prefix: str, rewards: Sequence[float], shown: Sequence[EpisodeText]) -> None:
        """Write a chart and texts."""
        import numpy as np
        import swanlab

        counts, edges = np.histogram(rewards)
        chart = swanlab.echarts.Bar()
        chart.add_xaxis([f"{low:.3g} … {high:.3g}" for low, high in pairwise(edges)])
        chart.add_yaxis("episodes", counts.tolist())
        texts = [swanlab.Text(one.text, caption=f"{one.id}: reward {one.reward:g}") for one in shown]
        self._run.log({f"{prefix}reward/distribution": chart, f"{prefix}transcripts": texts}, step=step)

    def close(self, status: Status) -> None:
        """End the run."""
        self._run.finish(state=_STATES[status], error=None if status == "finished" else f"the run {status}")
