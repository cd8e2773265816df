"""Supported versions, and the environment of Trinity's processes. Imports nothing heavy."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from pathlib import Path

from attrs import frozen
from packaging.specifiers import SpecifierSet

from astuner.contract.errors import PluginError, UsageError
from astuner.settings.config.rollout import Rollout
from astuner.shared.known_packages import read_known_packages
from astuner.shared.processes import gpu_count

WANTED = read_known_packages().windows["astuner-trinity"]
"""The supported versions."""

SILENCE = "ASTUNER_TRINITY_SILENCE_S"
"""Seconds without output of any process after which the run fails."""
SILENCE_S = 1800.0
"""The default, if episodes end sooner."""

STAND_INS = "astuner_trinity.stand_ins"
"""Entry point group of the tests' replacements for GPUs and vLLM: functions that return variables for Trinity's processes."""


@frozen(kw_only=True)
class Machine:
    """The resources of a computing node: those found on this machine."""

    gpus: int
    nodes: int = 1
    """Nodes with this many GPUs each."""
    stand_in: str | None = None
    """The distribution that replaces GPUs and vLLM in tests; None if they are real."""
    flash_attention: bool = False


def check_versions() -> None:
    """Raise `UsageError` for unsupported versions; imports nothing heavy."""
    for name, wanted in WANTED.items():
        try:
            found = version(name)
        except PackageNotFoundError as error:
            raise UsageError(
                f"the backbone 'trinity' needs {name}, which is not installed here: astuner setup trinity installs it"
            ) from error
        if not SpecifierSet(wanted).contains(found, prereleases=True):
            raise UsageError(
                f"{name} {found} is installed; the backbone 'trinity' drives {name}{wanted}. Uninstall trinity-rft here; "
                "astuner setup trinity makes an environment with versions that fit"
            )


def look_at_machine() -> tuple[Machine, dict[str, str]]:
    """Return this machine, and variables for Trinity's processes; raises `UsageError` without vLLM or a replacement."""
    variables = {
        # Trinity needs Ray's commands on the path, even if the environment is not activated.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "TOKENIZERS_PARALLELISM": "false",
    }
    gpus, flash = gpu_count(), find_spec("flash_attn") is not None
    points = list(entry_points(group=STAND_INS))
    if points:
        found = points[0]
        more = found.load()()
        if not isinstance(more, Mapping):
            raise PluginError(f"{found.value} returned no variables")
        return Machine(gpus=0, stand_in=found.dist.name if found.dist else found.name), {**variables, **more}
    if find_spec("vllm") is None:
        raise UsageError(
            "the backbone 'trinity' needs vLLM: Trinity imports it even where it is not used. Uninstall trinity-rft here; "
            "astuner setup trinity makes an environment with both, on Linux with an x86-64 processor"
        )
    if gpus == 0 and not os.environ.get("RAY_ADDRESS"):
        raise UsageError(
            "the backbone 'trinity' needs a GPU: Trinity's trainer and vLLM compute on nothing else. Set RAY_ADDRESS to a "
            "cluster that has some, or train with the backbone 'local' or 'verl', which compute on a CPU too"
        )
    # Another cluster reports its own resources.
    there = 0 if os.environ.get("RAY_ADDRESS") else gpus
    return Machine(gpus=there, flash_attention=flash), variables


def silence_s(rollout: Rollout) -> float:
    """Return the limit on silence; raises `UsageError` if it is not a number of seconds.

    An episode may be silent until its last attempt has ended, and its judge for the same time again.
    """
    text = os.environ.get(SILENCE)
    if text is None:
        longest = rollout.episode_timeout_s
        return math.inf if longest is None else max(SILENCE_S, longest * max(2, rollout.max_retries + 1))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise UsageError(f"{SILENCE}={text!r}: give more than 0 seconds, as in {SILENCE}=1800")
    return seconds
