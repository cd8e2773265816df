"""Sandboxes that are processes of this machine, for those of core and of packages that start them in another way."""

from astuner.sandboxes.options import ProcessOptions
from astuner.sandboxes.process_sandboxes import ProcessSandboxes, Wrapping

__all__ = ["ProcessOptions", "ProcessSandboxes", "Wrapping"]
