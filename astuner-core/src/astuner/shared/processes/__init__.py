"""Programs that astuner starts: each has its own guard and a record on disk, and is ended completely."""

from typing import TYPE_CHECKING

from astuner.shared.lazy_names import import_on_use

if TYPE_CHECKING:
    from astuner.shared.processes.gpus import gpu_count as gpu_count
    from astuner.shared.processes.json_lines import JsonLines as JsonLines
    from astuner.shared.processes.json_lines import end_child as end_child
    from astuner.shared.processes.log_lines import select_telling_lines as select_telling_lines
    from astuner.shared.processes.ports import LOOPBACK as LOOPBACK
    from astuner.shared.processes.ports import SOCKETS as SOCKETS
    from astuner.shared.processes.ports import accepts as accepts
    from astuner.shared.processes.ports import free_port as free_port
    from astuner.shared.processes.ports import keep_stores_here as keep_stores_here
    from astuner.shared.processes.process_environment import export_variables as export_variables
    from astuner.shared.processes.process_environment import set_limit as set_limit
    from astuner.shared.processes.process_members import MARK as MARK
    from astuner.shared.processes.program_handle import ProgramHandle as ProgramHandle
    from astuner.shared.processes.program_launch import ProgramSpec as ProgramSpec
    from astuner.shared.processes.program_launch import attach as attach
    from astuner.shared.processes.program_launch import launch as launch
    from astuner.shared.processes.program_record import Kind as Kind
    from astuner.shared.processes.program_record import Lease as Lease
    from astuner.shared.processes.program_record import ProgramRecord as ProgramRecord
    from astuner.shared.processes.program_record import RecordFiles as RecordFiles
    from astuner.shared.processes.program_registry import is_alive as is_alive
    from astuner.shared.processes.program_registry import list_programs as list_programs
    from astuner.shared.processes.program_registry import register_run as register_run
    from astuner.shared.processes.readiness import wait_until_ready as wait_until_ready

# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:
    __getattr__ = import_on_use(__name__, __file__)
