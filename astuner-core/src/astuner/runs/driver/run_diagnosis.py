"""What an installed package says about a run that does not learn, while it trains and at its end."""

from __future__ import annotations

from collections.abc import Iterator

from astuner.runs.driver.run_directories import shorten_path
from astuner.runs.store.directory import RunDirectory
from astuner.settings.plugins.functions import find_function


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
