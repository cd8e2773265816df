"""Sandboxes that are processes of this machine, for those of core and of packages that start them in another way.

`SerialSession`, and `split_path` and `compile_patterns`, the rules of paths and patterns, are for sandboxes that are something
else.
"""

from astuner_agents.sandboxes.file_transfer import split_path
from astuner_agents.sandboxes.options import ProcessOptions
from astuner_agents.sandboxes.path_patterns import compile_patterns
from astuner_agents.sandboxes.process_sandboxes import ProcessSandboxes, Wrapping
from astuner_agents.sandboxes.serial_session import SerialSession

__all__ = ["ProcessOptions", "ProcessSandboxes", "SerialSession", "Wrapping", "compile_patterns", "split_path"]
