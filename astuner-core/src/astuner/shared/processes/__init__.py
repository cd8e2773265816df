"""Programs that astuner starts: each has its own guard and a record on disk, and is ended completely."""

from astuner.shared.processes.ports import free_port
from astuner.shared.processes.program_handle import ProgramHandle
from astuner.shared.processes.program_launch import ProgramSpec, attach, launch
from astuner.shared.processes.program_record import Kind, Lease, ProgramRecord
from astuner.shared.processes.program_registry import list_programs, register_run
from astuner.shared.processes.readiness import wait_until_ready

__all__ = [
    "Kind",
    "Lease",
    "ProgramHandle",
    "ProgramRecord",
    "ProgramSpec",
    "attach",
    "free_port",
    "launch",
    "list_programs",
    "register_run",
    "wait_until_ready",
]
