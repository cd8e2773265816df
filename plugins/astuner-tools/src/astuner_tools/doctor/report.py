"""All rows of the doctor, in one list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attrs import evolve, frozen

from astuner.settings.config.redaction import redact_tree
from astuner.settings.plugins.catalog import Catalog
from astuner_tools.doctor.agentscope import agentscope_rows
from astuner_tools.doctor.cluster import ray_rows
from astuner_tools.doctor.configuration import configuration_rows
from astuner_tools.doctor.gpu import gpu_rows
from astuner_tools.doctor.packages import distribution_rows, engine_rows, extension_rows, python_rows
from astuner_tools.doctor.rows import Row
from astuner_tools.doctor.secrets import Variables, key_rows
from astuner_tools.doctor.space import space_rows
from astuner_tools.doctor.venvs import venv_rows


@frozen(kw_only=True)
class Report:
    """The rows, without secrets."""

    rows: tuple[Row, ...]
    configured: bool = False
    """Whether they are about a configuration."""

    @property
    def healthy(self) -> bool:
        """Whether nothing is broken; a chosen backbone that cannot run the configuration is."""
        return all(row.status != "broken" for row in self.rows)

    @property
    def shown(self) -> tuple[Row, ...]:
        """The rows of the table. What a configuration does not use and this machine does not have is one row, the last."""
        unused = [row for row in self.rows if self.configured and row.status == "missing" and row.area in _OPTIONAL]
        others = tuple(row for row in self.rows if row not in unused)
        if not unused:
            return others
        detail = f"{', '.join(dict.fromkeys(row.what for row in unused))}; `astuner doctor` shows the commands that install them"
        return (*others, Row(area="not used", what=f"{len(unused)} missing", status="missing", detail=detail))


_OPTIONAL = ("plugins", "engines", "ray", "keys", "backbones")
"""Areas in which `missing` means that this configuration does not need it."""

_ANSWER = ("backbones", "configuration", "model", "keys", "space", "ports", "extensions")
"""The areas that say whether a configuration can run, in the order of a reader's questions."""


def examine(conf: Path | None = None) -> Report:
    """Check this environment, and what a configuration needs from it."""
    variables = Variables.read(conf.absolute().parent if conf else None)
    rows = [_hide_secrets(row, variables) for row in _collect_rows(conf, variables)]
    if conf is not None:
        rows.sort(key=lambda row: _ANSWER.index(row.area) if row.area in _ANSWER else len(_ANSWER))
    return Report(rows=tuple(rows), configured=conf is not None)


def _collect_rows(conf: Path | None, variables: Variables) -> Iterator[Row]:
    catalog = Catalog.discover()
    yield from python_rows()
    yield from distribution_rows(catalog)
    yield from engine_rows()
    yield from agentscope_rows()
    yield from venv_rows(catalog)
    yield from gpu_rows()
    yield from ray_rows()
    yield from key_rows(variables, _read_text(conf))
    if conf is None:
        yield from extension_rows(catalog, {})
        yield from space_rows(Path.cwd())
    else:
        yield from configuration_rows(conf)


def _read_text(conf: Path | None) -> str:
    # Problems of the file itself are reported where it is loaded.
    return conf.read_text(encoding="utf-8", errors="replace") if conf else ""


def _hide_secrets(row: Row, variables: Variables) -> Row:
    clean = redact_tree(row.as_dict())
    what, detail, remedy = (variables.hide(clean[name]) for name in ("what", "detail", "remedy"))
    return evolve(row, what=what, detail=detail, remedy=remedy)
