"""The commands of core: the name, the place and the line of the help of each."""

from __future__ import annotations

from collections.abc import Mapping

CORE_COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("astuner.cli.run:run", "Train the model behind an agent."),
    "warm-start": (
        "astuner_tools.demonstrations.command:warm_start",
        "Train the model on demonstrations, before reinforcement learning.",
    ),
    "eval": ("astuner.cli.evaluate:evaluate", "Run only the validation pass."),
    "export": ("astuner.cli.export:export", "Write a checkpoint as a Hugging Face model."),
    "runs": ("astuner.cli.runs:runs", "List runs: state, rewards, best validation, time and tokens."),
    "episodes": ("astuner.cli.episodes:episodes", "Show the episodes of a run."),
    "compare": ("astuner.cli.compare:compare", "Compare runs: configuration, curves and tasks."),
    "replay": ("astuner_tools.replays.command:replay", "Score the stored episodes of a run again, by other judges."),
    "setup": ("astuner.cli.setup:setup", "Make the virtual environment that a backbone needs for itself."),
    "ps": ("astuner.cli.ps:ps", "List the runs, services and servers that are running."),
    "stop": ("astuner.cli.stop:stop", "Stop runs, services and servers."),
    "plugin": ("astuner.cli.plugin:plugin", "List, show, check and create plugins."),
    "config": ("astuner.cli.config:config", "Check, show and explain a configuration."),
    "doctor": ("astuner.cli.doctor:doctor", "Show what is installed, what can run and what is missing."),
}
"""Target and help text by name."""
