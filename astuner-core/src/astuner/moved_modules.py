"""Where the modules of earlier states are now: an import of one says what to write instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_WINGS: Mapping[str, str] = {
    "contract": "errors hookspecs plain_values protocols schema token_streams",
    "settings": "config planning plugins",
    "model": "gateway http_server rendering",
    "episodes": "builtin containment judging rollout transcript",
    "runs": "driver inspection launching training",
    "shared": "clients install_hints private_files processes services tabular",
}
_RENAMED: Mapping[str, str] = {
    "agents": "astuner_agents",
    "breakpoints.debugger": "astuner_tools.breakpoints.debugger",
    "builtin.detectors": "astuner_judges.detectors",
    "builtin.sandboxes": "astuner_agents.sandboxes",
    "cli.compare": "astuner_tools.compare",
    "cli.config_explain": "astuner_tools.config_explain.command",
    "cli.config_memory": "astuner_tools.config_memory.command",
    "cli.gpu_option": "astuner_tools.config_memory.gpu_option",
    "clients.env_service": "astuner_env_service.client",
    "clients.reasoning_gym": "astuner_reasoning_gym.program",
    "config_import": "astuner_tools.config_import",
    "cli.doctor": "astuner_tools.doctor.command",
    "demonstrations": "astuner_tools.demonstrations",
    "episodes.builtin.detectors": "astuner_judges.detectors",
    "handover": "astuner.contract.user_values",
    "doctor": "astuner_tools.doctor",
    "memory": "astuner.settings.memory_estimate",
    "episodes.rollout_workers": "astuner_rollout_workers",
    "episodes.rollout_workers.group_runner": "astuner.episodes.rollout.group_runner",
    "players": "astuner_rollout_workers",
    "players.group_runner": "astuner.episodes.rollout.group_runner",
    "published": "astuner.shared.known_packages",
    "replays": "astuner_tools.replays",
    "replays.agreement": "astuner_tools.replays.agreement",
    "runs.driver.replay_request": "astuner_tools.replays.replay_request",
    "runs.driver.training_on_replay": "astuner_tools.replays.training_on_replay",
    "sandboxes": "astuner_agents.sandboxes",
    "scaffold": "astuner_devkit.scaffold",
    "testing": "astuner_devkit",
    "settings.planning.explanation": "astuner_tools.config_explain.explanation",
    "settings.planning.schema": "astuner_tools.config_schema",
    "runs.store.record_outline": "astuner_logview.index.record_outline",
    "settings.config.agent_presets": "astuner_agents.presets",
    "settings.config.similar_paths": "astuner.settings.config.paths",
    "thoughts": "astuner.model.reasoning",
    "venvs": "astuner_trinity.own_venv",
}
MOVED = {f"astuner.{room}": f"astuner.{wing}.{room}" for wing, rooms in _WINGS.items() for room in rooms.split()} | {
    f"astuner.{old}": new for old, new in _RENAMED.items()
}


class MovedModules(MetaPathFinder):
    """The last finder of all, asked only for what exists nowhere."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Raise `ImportError` with the present name of a moved module; find nothing otherwise."""
        if fullname.startswith("astuner.") and (new := find_present_name(fullname)) is not None:
            package = new.partition(".")[0]
            install = "" if package == "astuner" else f", from the package {package.replace('_', '-')}"
            raise ImportError(f"{fullname} is now {new}{install} (docs/api.md lists what a plugin may import)", name=fullname)
        return None


def find_present_name(module: str) -> str | None:
    """Return the present name of a module of earlier states; None if none of its packages has moved."""
    parts = module.split(".")
    for depth in range(len(parts), 1, -1):
        if (new := MOVED.get(".".join(parts[:depth]))) is not None:
            return ".".join([new, *parts[depth:]])
    return None
