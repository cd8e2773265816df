"""Programs that astuner starts: each has its own guard and a record on disk, and is ended completely."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astuner.shared.processes.gpus import gpu_count
    from astuner.shared.processes.json_child import JsonChild, JsonProgram
    from astuner.shared.processes.json_lines import JsonLines, end_child
    from astuner.shared.processes.log_lines import select_telling_lines
    from astuner.shared.processes.ports import LOOPBACK, accepts, free_port
    from astuner.shared.processes.process_environment import export_variables
    from astuner.shared.processes.process_members import MARK
    from astuner.shared.processes.program_handle import ProgramHandle
    from astuner.shared.processes.program_launch import ProgramSpec, attach, launch
    from astuner.shared.processes.program_record import Kind, Lease, ProgramRecord
    from astuner.shared.processes.program_registry import list_programs, register_run
    from astuner.shared.processes.readiness import wait_until_ready
    from astuner.shared.processes.resource_bounds import set_limit

_MODULES = {
    "JsonChild": "json_child",
    "JsonLines": "json_lines",
    "JsonProgram": "json_child",
    "Kind": "program_record",
    "LOOPBACK": "ports",
    "Lease": "program_record",
    "MARK": "process_members",
    "ProgramHandle": "program_handle",
    "ProgramRecord": "program_record",
    "ProgramSpec": "program_launch",
    "accepts": "ports",
    "attach": "program_launch",
    "end_child": "json_lines",
    "export_variables": "process_environment",
    "free_port": "ports",
    "gpu_count": "gpus",
    "launch": "program_launch",
    "list_programs": "program_registry",
    "register_run": "program_registry",
    "select_telling_lines": "log_lines",
    "set_limit": "resource_bounds",
    "wait_until_ready": "readiness",
}
"""Where each name is defined: imported on first use, since most runs only register themselves."""

__all__ = [
    "LOOPBACK",
    "MARK",
    "JsonChild",
    "JsonLines",
    "JsonProgram",
    "Kind",
    "Lease",
    "ProgramHandle",
    "ProgramRecord",
    "ProgramSpec",
    "accepts",
    "attach",
    "end_child",
    "export_variables",
    "free_port",
    "gpu_count",
    "launch",
    "list_programs",
    "register_run",
    "select_telling_lines",
    "set_limit",
    "wait_until_ready",
]

# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name on its first use."""
        if name in _MODULES:
            value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
            return value
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
