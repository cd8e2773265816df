"""Programs that we start: each under a guard of its own, written down on disk, and ended exactly."""

from astuner.processes.launched import Launched
from astuner.processes.launching import attach, launch
from astuner.processes.ports import free_port
from astuner.processes.readiness import until_ready
from astuner.processes.record import Kind, Lease, Started
from astuner.processes.registry import registered_run, started_programs

__all__ = [
    "Kind",
    "Launched",
    "Lease",
    "Started",
    "attach",
    "free_port",
    "launch",
    "registered_run",
    "started_programs",
    "until_ready",
]
