"""The configuration of a run in TensorBoard: a text, and a hyperparameter for each value, to compare runs by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorboard.compat.proto.summary_pb2 import Summary

NAMES = ("experiment_name", "experiment_dir")
"""What every run has to itself, so that no others could be compared by it."""
ABOUT = "The configuration of the run, with its defaults and without its secrets."


def summarise_configuration(parameters: Mapping[str, Any], name: str) -> Iterator[Summary]:
    """Yield a text of nested values, and the same as hyperparameters of the run of this name."""
    import yaml
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb
    from tensorboard.plugins.text.summary_v2 import text_pb

    text = yaml.safe_dump(dict(parameters), sort_keys=False, allow_unicode=True)
    yield text_pb("configuration", indent_as_code(text), description=ABOUT)
    # Without an id of its own, a run would share a row with those of equal values.
    compared = {path: value for path, value in flatten(parameters) if path not in NAMES}
    yield hparams_pb(compared, trial_id=name)


def summarise_success() -> Summary:
    """Return what marks a run as finished; a resumed run cannot take back what another mark says."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    ended = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS)
    data = plugin_data_pb2.HParamsPluginData(session_end_info=ended)
    summary = Summary()
    summary.value.add(
        tag=metadata.SESSION_END_INFO_TAG, metadata=metadata.create_summary_metadata(data), tensor=metadata.NULL_TENSOR
    )
    return summary


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, bool | float | str]]:
    """Yield each value by its dotted path: lists as JSON, and those that are not set left out."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from flatten(value, f"{path}.")
        elif isinstance(value, bool | int | float | str):
            yield path, value
        elif value is not None:
            yield path, json.dumps(value, ensure_ascii=False)


def indent_as_code(text: str) -> str:
    """Indent a text: that makes it a code block, whatever marks it contains."""
    return "\n".join(f"    {line}" for line in text.splitlines())
