"""Programs that we start: each under a guard of its own, written down on disk, and ended exactly."""

from astuner.processes.ports import free_port
from astuner.processes.program_handle import Launched
from astuner.processes.program_launch import attach, launch
from astuner.processes.program_record import Kind, Lease, Started
from astuner.processes.program_registry import registered_run, started_programs
from astuner.processes.readiness import until_ready

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
