"""Starting one server, waiting until it is ready, and explaining failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from attrs import field, frozen

from astuner.contract.errors import AstunerError
from astuner.shared.processes import select_telling_lines
from astuner_vllm.failures import ServerError
from astuner_vllm.startup_faults import find_startup_fault
from astuner_vllm.startup_stages import find_stage

if TYPE_CHECKING:
    from astuner.shared.processes import Lease, ProgramHandle
    from astuner_vllm.command import ServerCommand

PORTS = 5
"""A port that was free a moment ago may be taken when the server binds it; this many are tried."""
TELL_S = 14.0
"""Time between two reports on a slow start."""
LINES = 15
"""Lines of the log in an error."""


class Say(Protocol):
    """Shows messages to the user."""

    def __call__(self, text: str, level: Literal["info", "warning"], /) -> None:
        """Show it at once."""


@frozen(kw_only=True)
class ServerPlan:
    """Starts and restarts one of our servers."""

    name: str
    """The name of its log and its record."""
    command: Callable[[int], ServerCommand]
    """Makes the command line for a port."""
    directory: Path
    """The run directory."""
    timeout_s: float
    port: int | None = None
    """None takes any free one."""
    lease: Lease | None = None
    facts: Mapping[str, Any] = field(factory=dict, repr=False)
    """Recorded in addition to those of the command."""

    @property
    def log(self) -> Path:
        """The file of its output."""
        return self.directory / "logs" / f"{self.name}.log"


async def start_server(plan: ServerPlan, say: Say) -> ProgramHandle:
    """Start a server and return it once it is ready; raises `ServerError` with the reason, leaving nothing running."""
    from astuner.shared.processes import free_port

    attempt = 0
    while True:
        attempt += 1
        try:
            return await _start_at(plan.port or free_port(), plan, say)
        except _PortTakenError:
            if plan.port is not None or attempt == PORTS:
                raise


async def wait_until_serving(plan: ServerPlan, launched: ProgramHandle, say: Say) -> None:
    """Wait until a server answers; raises `ServerError` with the reason if it does not."""
    from astuner.settings.config.model import Ready
    from astuner.shared.processes import wait_until_ready

    try:
        await wait_until_ready(
            launched, Ready(url=f"{launched.record.url}/health"), plan.timeout_s, _Progress(plan, launched, say)
        )
    except AstunerError as error:
        raise await asyncio.to_thread(_explain_failure, plan, launched, error) from error


async def _await_launch(launching: asyncio.Future[ProgramHandle]) -> ProgramHandle:
    """Return the launched program; end it if the caller was cancelled."""
    try:
        return await asyncio.shield(launching)
    except asyncio.CancelledError:
        await asyncio.to_thread((await launching).end)
        raise


class _PortTakenError(ServerError):
    """Another program has taken the port."""


async def _start_at(port: int, plan: ServerPlan, say: Say) -> ProgramHandle:
    from astuner.shared.processes import ProgramSpec, launch

    command, url = plan.command(port), f"http://127.0.0.1:{port}"
    say(f"{plan.name}: starting vLLM with {command.facts['model']}; log: {plan.log}", "info")
    program = ProgramSpec(
        command=command.argv,
        kind="server",
        name=plan.name,
        log=plan.log,
        # Not in the user's directory, whose modules must not shadow vLLM's.
        cwd=plan.directory,
        env=command.env,
        directory=plan.directory,
        port=port,
        url=url,
        lease=plan.lease,
        facts={**command.facts, **plan.facts},
    )
    launching = asyncio.to_thread(launch, program)
    launched = await _await_launch(asyncio.ensure_future(launching))
    serves = False
    try:
        await wait_until_serving(plan, launched, say)
        serves = True
    finally:
        if not serves:
            await asyncio.shield(asyncio.to_thread(launched.end))
    say(f"{plan.name}: serves at {url}", "info")
    return launched


def _explain_failure(plan: ServerPlan, launched: ProgramHandle, error: AstunerError) -> ServerError:
    status, fault = launched.poll(), find_startup_fault(launched.read_output())
    if status is None:
        what = f"{plan.name} did not serve within rollout.vllm.startup_timeout_s = {plan.timeout_s:g}"
    else:
        what = f"{plan.name} did not start (exit status {status})"
    if fault is None:
        killed = status in (-9, 137)
        said = "the system killed it, which it does when memory runs out: lower rollout.vllm.cpu_kv_cache_gib" if killed else ""
    else:
        said = f"{fault.reason} - {fault.remedy}" if fault.remedy else fault.reason
    # If another run started it, its log is in that run's directory.
    lines = "\n".join(select_telling_lines(launched.read_output(), LINES))
    text = f"{what}{': ' if said else ''}{said}\nlast lines of {launched.record.log}:\n{lines}"
    return _PortTakenError(text) if fault is not None and fault.port_taken else ServerError(text)


class _Progress:
    """Reports at intervals how long a server has been starting, and what it does."""

    def __init__(self, plan: ServerPlan, launched: ProgramHandle, say: Say) -> None:
        self._plan, self._launched, self._say = plan, launched, say
        self._began = self._told = time.monotonic()

    def __call__(self, _: str) -> None:
        """Note that it is not ready yet."""
        now = time.monotonic()
        if now - self._told < TELL_S:
            return
        self._told = now
        stage = find_stage(self._launched.read_output())
        waited = f"{now - self._began:.0f} of at most {self._plan.timeout_s:g} s"
        self._say(f"{self._plan.name}: {stage}, {waited}", "info")
