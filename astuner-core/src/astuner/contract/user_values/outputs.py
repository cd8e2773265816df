"""What a workflow returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from astuner.contract.plain_values import LARGEST_REWARD, has_type, read_number, read_text, show_value
from astuner.contract.schema import WorkflowOutput
from astuner.contract.user_values.changes import Change, make_mapping_plain
from astuner.contract.user_values.responses import describe_response
from astuner.contract.user_values.verdicts import describe_range, read_reward, read_success


@frozen
class CheckedOutput:
    """A workflow's output with plain values."""

    output: WorkflowOutput
    changes: tuple[Change, ...]


def check_output(output: object) -> CheckedOutput:
    """Return what a workflow returned as it will be read back from the store, and what had to be changed.

    Metrics that are not finite numbers are left out, and metadata becomes JSON values. Raises `TypeError` for anything but an
    output, and for success without a truth value; `ValueError` for a reward that is not a number, not finite or too large.
    """
    if not has_type(output, WorkflowOutput):
        raise TypeError(f"the workflow returned {show_value(output)}; it must return a WorkflowOutput")
    try:
        return _check(output)
    except (TypeError, ValueError, KeyboardInterrupt):
        raise
    except BaseException as error:
        # SystemExit and CancelledError too, which would end more than this episode.
        raise ValueError(f"a value of the workflow's output raised {type(error).__name__}: {read_text(error)}") from error


def _check(output: WorkflowOutput) -> CheckedOutput:
    given = output.metadata if output.response is None else {**describe_response(output.response), **output.metadata}
    metadata, changes = make_mapping_plain(given, "WorkflowOutput.metadata")
    checked = WorkflowOutput(
        reward=_read_rewards(output.reward),
        is_success=_read_success(output.is_success),
        metadata=metadata,
        log_metrics=find_numbers(output.log_metrics),
        response=output.response,
    )
    return CheckedOutput(checked, (*changes, *_list_dropped(output.log_metrics)))


def find_numbers(metrics: Mapping[Any, Any]) -> dict[str, float]:
    """Return the finite numbers of a workflow's `log_metrics`; NumPy's scalars and truth values are numbers too."""
    found = ((read_text(name), read_number(value)) for name, value in metrics.items())
    return {name: number for name, number in found if number is not None}


def _list_dropped(metrics: Mapping[Any, Any]) -> Iterator[Change]:
    """Yield what `find_numbers` leaves out."""
    for name, value in metrics.items():
        if read_number(value) is None:
            kind = repr(value) if type(value) is float else type(value).__qualname__
            yield Change(
                f"WorkflowOutput.log_metrics[{read_text(name)!r}]",
                f"must be a finite number and was {kind}",
                "it is left out there. Put it into `metadata` if a judge needs it.",
            )


def _read_rewards(given: Any) -> float | dict[str, float] | None:
    if given is None:
        return None
    if not issubclass(type(given), Mapping):
        return _read_reward(given, "WorkflowOutput.reward")
    names = {read_text(name): value for name, value in given.items()}
    if not names:
        raise ValueError("WorkflowOutput.reward is an empty mapping; name an agent, or give a number for the episode")
    return {name: _read_reward(value, f"WorkflowOutput.reward[{name!r}]") for name, value in names.items()}


def _read_reward(value: Any, place: str) -> float:
    number = read_reward(value)
    if number is None:
        raise ValueError(f"{place} is {show_value(value)}; it must be {describe_range(LARGEST_REWARD)}")
    return number


def _read_success(value: Any) -> bool | None:
    try:
        return read_success(value)
    except Exception as error:
        raise TypeError(f"WorkflowOutput.is_success is {show_value(value)}, which is neither true nor false") from error
