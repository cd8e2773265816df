"""The table of steps that a terminal shows, with the waterfall of the last one below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from astuner.episodes.builtin.loggers.step_figures import Row, format_row, format_waterfall, order_columns

if TYPE_CHECKING:
    from rich.console import RenderableType


def build_step_table(title: str, rows: Sequence[Row], shown: Sequence[Row], step_url: str | None = None) -> RenderableType:
    """Return the table of the rows `shown`; its columns are those of all `rows`, so that none comes and goes.

    `step_url` is the URL of a step's page, with `{step}` for its number; the numbers are links to it.
    """
    from rich import box
    from rich.console import Group
    from rich.style import Style
    from rich.table import Table
    from rich.text import Text

    names = order_columns([name for step, metrics in rows for name in format_row(step, metrics)[1]])
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("step", *names):
        table.add_column(name, justify="right", no_wrap=True)
    for step, metrics in shown:
        label, found = format_row(step, metrics)
        link = None if step_url is None else step_url.replace("{step}", str(step))
        table.add_row(Text.assemble((label, Style(link=link))), *(found.get(name, "") for name in names))
    latest = next((text for _, metrics in reversed(rows) if (text := format_waterfall(metrics))), "")
    return Group(Text(title), *([table] if shown else []), *([Text(latest)] if latest else []))
