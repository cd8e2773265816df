"""Base of the loggers of tracking services: each passes everything to a writer in a separate process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import field, frozen

from astuner import hookimpl
from astuner.contract.errors import PluginError
from astuner.contract.protocols import LoggerTraits, RunInfo
from astuner.contract.schema import Group
from astuner.shared.install_hints import install_command
from astuner_loggers.episodes import summarise
from astuner_loggers.parameters import build_parameters, collect_secrets
from astuner_loggers.writer_process import WriterProcess

INTERRUPTED_WAIT_S = 10.0
"""After Ctrl-C, the longest wait for a service."""
_STATUS = {0: "finished", 130: "interrupted"}


@frozen(kw_only=True)
class Service:
    """Where and how one logger writes."""

    name: str
    """The logger's name."""
    packages: tuple[str, ...]
    """The module that must be importable."""
    requirement: str
    """The extra that installs it."""
    writer: str
    """`module:Class` of the writer."""
    directory: Path
    """The directory of its files."""
    project: str
    experiment: str
    where: str
    """The mode or the server; a resumed run that writes elsewhere starts a new tracked run there."""
    settings: Mapping[str, Any] = field(factory=dict)
    """Options of the writer."""
    environment: Mapping[str, str] = field(factory=dict)
    """Variables of the process, in addition to inherited ones."""
    dropped: tuple[str, ...] = ()
    """Prefixes of variables that are not inherited."""
    private_home: bool = True
    """Whether the home directory of the process is in `directory`; a service with a login needs the real one."""
    episodes: int
    timeout_s: float


class ProcessLogger:
    """Writes to a tracking service through its own library, which runs in another process."""

    traits = LoggerTraits(truncates=True)

    def __init__(self, service: Service, run_info: RunInfo) -> None:
        _check_installed(service)
        self._service, self._run_info = service, run_info
        self._secrets = collect_secrets(run_info)
        self._status = "finished"
        self._begun = False
        self._process: WriterProcess | None = WriterProcess(
            service.name,
            service.writer,
            directory=service.directory,
            log=run_info.directory / "logs" / f"logger-{service.name}.log",
            environment=_environment(service),
            timeout_s=service.timeout_s,
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of a step or of a validation, under the names of `metrics.jsonl`."""
        numbers = {name: float(value) for name, value in metrics.items()}
        if numbers:
            self._ask("log", step=int(step), metrics=numbers)

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        """Write the distribution of rewards, and the transcripts of a few episodes."""
        if self._service.episodes == 0 or (summary := summarise(groups, self._service.episodes, self._secrets)) is None:
            return
        shown = [{"id": one.id, "reward": one.reward, "text": one.text} for one in summary.shown]
        self._ask("log_episodes", step=int(step), prefix=summary.prefix, rewards=summary.rewards, shown=shown)

    def truncate_after(self, step: int) -> None:
        """Continue the tracked run of the earlier attempt, from the checkpoint of `step`."""
        self._begin(after=step)

    @hookimpl
    def astuner_run_started(self) -> None:
        """Start the tracked run, so that it is visible before its first step."""
        self._begin()

    @hookimpl
    def astuner_run_finished(self, exit_code: int) -> None:
        """Store how the run ended, for the service to show."""
        self._status = _STATUS.get(exit_code, "failed")

    def close(self) -> None:
        """End the tracked run and the process; raises `PluginError` if the service did not accept the rest."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.ask("close", within_s=INTERRUPTED_WAIT_S if self._status == "interrupted" else None, status=self._status)
        finally:
            process.end()

    def _begin(self, after: int | None = None) -> None:
        if self._begun or self._process is None:
            return
        self._begun = True
        service = self._service
        self._process.post(
            "open",
            directory=str(service.directory),
            # Several runs may share the directory of a service; each has its own ledger.
            ledger=str((self._run_info.directory / service.name).absolute()),
            project=service.project,
            experiment=service.experiment,
            where=service.where,
            settings=dict(service.settings),
            parameters=build_parameters(self._run_info),
            after=after,
        )

    def _ask(self, do: str, **what: Any) -> None:
        self._begin()
        if self._process is None:
            raise PluginError("it is closed")
        try:
            self._process.ask(do, **what)
        except PluginError:
            self._process = None
            raise
        except Exception:
            # Nothing arrived of what cannot be sent; no process is left running for it.
            process, self._process = self._process, None
            process.end()
            raise


def _check_installed(service: Service) -> None:
    missing = [package for package in service.packages if find_spec(package) is None]
    if missing:
        packages = f"package{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
        raise PluginError(f"logger '{service.name}' needs the {packages}: {install_command(service.requirement)}")


def _environment(service: Service) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(service.dropped)}
    if service.private_home:
        home = str(service.directory / "home")
        kept = {name: value for name, value in kept.items() if not name.startswith("XDG_")} | {"HOME": home}
    return {**kept, **service.environment}
