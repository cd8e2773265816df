"""Making a report of a run in any state, and writing it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from astuner.runs.inspection.run import Run
from astuner_tools.markdown_text import code, drop_controls, escape_markdown, fence
from astuner_tools.reporting.charts import plan_chart
from astuner_tools.reporting.episodes_shown import list_failures, show_examples
from astuner_tools.reporting.evidence import Cited, Evidence
from astuner_tools.reporting.outcome import describe_outcome, describe_tuning
from astuner_tools.reporting.provenance import list_provenance, read_given, tell_findings
from astuner_tools.reporting.training import add_up_cost, pour_waterfall, read_curves

TEMPLATES = Path(__file__).with_name("templates")
LAYOUTS = {".html": "html.jinja", ".md": "markdown.jinja"}
"""By the ending of a file's name. The words are in `report.jinja`, whatever they are written as."""


def make_report(run: Run) -> dict[str, Any]:
    """Read a run of any state, without its lock, and return the sections by name, with a `Cited` for each figure."""
    evidence = Evidence(run, run.read_rows())
    return {
        "run": evidence.name,
        "outcome": describe_outcome(evidence),
        "tuned": describe_tuning(evidence),
        "curves": list(read_curves(evidence)),
        "waterfall": pour_waterfall(evidence),
        "examples": show_examples(evidence),
        "failures": list_failures(evidence),
        "cost": add_up_cost(evidence),
        "findings": list(tell_findings(evidence)),
        "provenance": list_provenance(evidence),
        "given": read_given(evidence),
        "written": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by astuner report {version('astuner-tools')}",
    }


def write_report(report: Mapping[str, Any], ending: str) -> str:
    """Return the text of a file with this ending: nothing of the run is markup in it, and each figure names its source.

    `report` also has the `problems` of reading the run.
    """
    in_html = ending == ".html"
    numbers: dict[tuple[str, str], int] = {}

    def clean(value: object) -> object:
        if isinstance(value, Markup):
            return value
        text = "–" if value is None else drop_controls(str(value))
        return text if in_html else Markup(escape_markdown(text))

    def number(figure: Cited) -> int:
        return numbers.setdefault((figure.place, figure.command), len(numbers) + 1)

    # Escaping is on for both: what is Markdown already is markup, and nothing else is left.
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=clean,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.do"],
    )
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    environment.globals |= {
        "number": number,
        "plan_chart": plan_chart,
        "numbers": numbers,
        "layout": LAYOUTS[ending],
        "style": Markup(style),
        "digest": base64.b64encode(sha256(style.encode()).digest()).decode(),
    }
    environment.filters |= {
        "squash": lambda text: Markup(" ".join(str(text).split())),
        "code": lambda text: Markup(code(str(text))),
        "fence": lambda text: Markup(fence(str(text))),
    }
    return environment.get_template("report.jinja").render(report)
