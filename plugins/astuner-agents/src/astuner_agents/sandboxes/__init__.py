"""Sandboxes that are processes of this machine, for those of core and of packages that start them in another way.

`split_path` and `compile_patterns` are the rules of paths and patterns, for sandboxes that are something else.
"""

from astuner_agents.sandboxes.file_transfer import split_path
from astuner_agents.sandboxes.options import ProcessOptions
from astuner_agents.sandboxes.path_patterns import compile_patterns
from astuner_agents.sandboxes.process_sandboxes import ProcessSandboxes, Wrapping

__all__ = ["ProcessOptions", "ProcessSandboxes", "Wrapping", "compile_patterns", "split_path"]
