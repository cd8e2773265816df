"""What an installed package says about a run that does not learn, while it trains and at its end."""

from __future__ import annotations

from collections.abc import Iterator

from astuner.runs.driver.run_story import shorten_path
from astuner.runs.store.directory import RunDirectory
from astuner.settings.plugins.functions import find_function

FIRST_STEP = 10
"""A running run is looked at after this step, and then whenever it is twice as long."""


def is_diagnosis_due(step: int, last: int | None) -> bool:
    """Whether a run is looked at after a step; after the last one the end of the run is."""
    times, rest = divmod(step, FIRST_STEP)
    return step != last and rest == 0 and times > 0 and times & (times - 1) == 0


def describe_run(directory: RunDirectory) -> Iterator[str]:
    """Yield the most likely cause that holds a run back, in a line; nothing if none stands out, or if no package can say."""
    describe = find_function("describe_run")
    if describe is None:
        return
    try:
        found = describe(directory.path, shorten_path(directory.path))
    except Exception as error:  # noqa: BLE001 - the boundary for what only advises: the run goes on without it
        found = f"what holds this run back cannot be said: {type(error).__name__}: {error}"
    if found:
        yield found
