"""The configuration of a run as the parameters of a tracked run, without its secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from astuner.contract.protocols import RunInfo
from astuner.settings.config.redaction import redact_tree, restore_variables
from astuner.settings.config.secrets import Secrets
from astuner.settings.config.structuring import make_converter
from astuner_loggers.episodes import to_encodable


def collect_secrets(run_info: RunInfo) -> Secrets:
    """Return what must not leave the run."""
    tree = {"astuner": make_converter().unstructure(run_info.config)}
    return Secrets.of(tree, run_info.native, from_environment=run_info.from_environment)


def build_parameters(run_info: RunInfo) -> dict[str, Any]:
    """Return the resolved configuration as plain nested values, and the version of core."""
    config = make_converter().unstructure(run_info.config)
    tree: Mapping[str, Any] = redact_tree(restore_variables(config, run_info.from_environment, "astuner"))
    plain = json.loads(json.dumps(tree, default=str))
    hidden: dict[str, Any] = _hide_repeats(plain, collect_secrets(run_info))
    return {**hidden, "backbone": run_info.backbone, "versions": {"astuner-core": version("astuner-core")}}


def _hide_repeats(value: Any, secrets: Secrets) -> Any:
    """Remove a secret that is repeated under an innocuous key."""
    if isinstance(value, dict):
        return {key: _hide_repeats(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_hide_repeats(item, secrets) for item in value]
    return to_encodable(secrets.hide(value)) if isinstance(value, str) else value
