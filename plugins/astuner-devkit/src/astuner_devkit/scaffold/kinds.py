"""What differs between the packages of the kinds, apart from their template files."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from attrs import frozen

from astuner.contract.errors import Problem, UsageError
from astuner.settings.plugins.kinds import add_article, parse_kind


@frozen(kw_only=True)
class Scaffold:
    """How the package of a kind is laid out."""

    description: str
    """The one sentence of its metadata."""
    section: str | None = None
    """Where the YAML holds the options: the path of the section that contains the component's own."""
    target: str | None = None
    """What the entry point names; None is the component's class."""
    core_extra: str = ""
    """The extra of astuner-core without which the component does not work."""
    package: str | None = None
    """The package with what the component is derived from, if core does not have it."""


SCAFFOLDS: Mapping[str, Scaffold] = {
    "reader": Scaffold(description="A reader of tasks for astuner.", section="task_reader"),
    "judge": Scaffold(description="A judge for astuner.", section="task_judge"),
    "tracker": Scaffold(description="A tracker of training samples for astuner.", section="context_tracker"),
    "logger": Scaffold(description="A logger for astuner."),
    "backbone": Scaffold(description="A backbone for astuner.", core_extra="rollout"),
    "engine": Scaffold(description="An inference engine for astuner.", section="rollout"),
    "environment": Scaffold(description="An environment for astuner.", section="environment"),
    "sandbox": Scaffold(description="A sandbox for astuner.", section="sandbox", package="astuner-agents"),
    "estimator": Scaffold(description="An advantage estimator for astuner."),
    "loss": Scaffold(description="A loss of the policy gradient for astuner.", section="trainer_common.algorithm"),
    "sampler": Scaffold(description="A sampler of training tasks for astuner.", section="data"),
    "detector": Scaffold(description="A detector of abnormal behaviour for astuner.", section="rollout.detectors"),
    "wire_api": Scaffold(description="An HTTP API of agents for astuner.", target="API", core_extra="rollout"),
    "hook": Scaffold(description="An extension of astuner."),
    "command": Scaffold(description="A command for astuner.", target="command"),
}
"""By kind. A workflow needs no package: every user writes their own."""


def find_scaffolded_kind(word: str) -> str:
    """Return the kind for a word in the singular or the plural; raises `UsageError` if it has no scaffold."""
    try:
        kind = parse_kind(word)
    except KeyError:
        problem = f"no kind {word!r}"
    else:
        if kind in SCAFFOLDS:
            return kind
        problem = f"there is no scaffold for {add_article(kind)}"
    close = difflib.get_close_matches(word, [*SCAFFOLDS, *(f"{name}s" for name in SCAFFOLDS)], n=1)
    message = f"{problem}; there are: {', '.join(SCAFFOLDS)}."
    raise UsageError(str(Problem(message=message, suggestion=close[0] if close else None)))
