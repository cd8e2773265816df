"""Programs that astuner starts: each has its own guard and a record on disk, and is ended completely."""

from typing import TYPE_CHECKING

from astuner.shared.lazy_names import import_on_use

if TYPE_CHECKING:
    from astuner.shared.processes.gpus import gpu_count
    from astuner.shared.processes.json_child import JsonChild, JsonProgram
    from astuner.shared.processes.json_lines import JsonLines, end_child
    from astuner.shared.processes.log_lines import select_telling_lines
    from astuner.shared.processes.ports import LOOPBACK, SOCKETS, accepts, free_port, keep_stores_here
    from astuner.shared.processes.process_environment import export_variables, set_limit
    from astuner.shared.processes.process_members import MARK
    from astuner.shared.processes.program_handle import ProgramHandle
    from astuner.shared.processes.program_launch import ProgramSpec, attach, launch
    from astuner.shared.processes.program_record import Kind, Lease, ProgramRecord, RecordFiles
    from astuner.shared.processes.program_registry import is_alive, list_programs, register_run
    from astuner.shared.processes.readiness import wait_until_ready

__all__ = [
    "LOOPBACK",
    "MARK",
    "SOCKETS",
    "JsonChild",
    "JsonLines",
    "JsonProgram",
    "Kind",
    "Lease",
    "ProgramHandle",
    "ProgramRecord",
    "ProgramSpec",
    "RecordFiles",
    "accepts",
    "attach",
    "end_child",
    "export_variables",
    "free_port",
    "gpu_count",
    "is_alive",
    "keep_stores_here",
    "launch",
    "list_programs",
    "register_run",
    "select_telling_lines",
    "set_limit",
    "wait_until_ready",
]

# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:
    __getattr__ = import_on_use(__name__, __file__)
