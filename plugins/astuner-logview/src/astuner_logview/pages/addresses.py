"""Which function answers which address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from astuner_logview.library import Library
from astuner_logview.pages import (
    compare,
    configuration,
    episode,
    episodes,
    group,
    judge,
    run,
    runs,
    steps,
    task,
    tokens,
    waterfall,
    why,
)
from astuner_logview.parameters import Parameters

Page = Callable[[Library, Parameters], dict[str, Any]]

PAGES: Mapping[str, Page] = {
    "/api/runs": runs.list_runs,
    "/api/compare": compare.compare,
    "/api/filter": episodes.complete_filter,
    "/api/config/schema": configuration.show_schema,
    "/api/runs/{run}": run.show_run,
    "/api/runs/{run}/metrics": run.show_metrics,
    "/api/runs/{run}/waterfall": waterfall.show_waterfall,
    "/api/runs/{run}/steps": steps.list_steps,
    "/api/runs/{run}/episodes": episodes.list_episodes,
    "/api/runs/{run}/values": episodes.list_values,
    "/api/runs/{run}/group": group.show_group,
    "/api/runs/{run}/task": task.show_task,
    "/api/runs/{run}/tasks": task.list_tasks,
    "/api/runs/{run}/episode": episode.show_episode,
    "/api/runs/{run}/text": episode.show_text,
    "/api/runs/{run}/stream": tokens.show_stream,
    "/api/runs/{run}/tokens": tokens.show_tokens,
    "/api/runs/{run}/judge": judge.show_judge,
    "/api/runs/{run}/agreement": judge.show_agreement,
    "/api/runs/{run}/why": why.show_why,
}
"""By address, in the form of Starlette's routes. Each may raise `Unanswerable`.

They read files and SQLite, so a server calls them in a thread. `{run}` is `Parameters.run`, what follows `?` `Parameters.values`.
`POST /api/config/explain` is `configuration.explain(library, body)`, `/api/events` is `astuner_logview.live.Feed`.
"""
