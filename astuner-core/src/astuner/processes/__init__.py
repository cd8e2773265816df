"""Programs that astuner starts: each has its own guard and a record on disk, and is ended completely."""

from astuner.processes.ports import free_port
from astuner.processes.program_handle import ProgramHandle
from astuner.processes.program_launch import attach, launch
from astuner.processes.program_record import Kind, Lease, ProgramRecord
from astuner.processes.program_registry import list_programs, register_run
from astuner.processes.readiness import wait_until_ready

__all__ = [
    "Kind",
    "Lease",
    "ProgramHandle",
    "ProgramRecord",
    "attach",
    "free_port",
    "launch",
    "list_programs",
    "register_run",
    "wait_until_ready",
]
