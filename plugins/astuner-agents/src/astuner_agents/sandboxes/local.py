"""The sandbox `local`: a directory, a home and a process of its own on this machine, as the user of the run."""

from __future__ import annotations

from astuner_agents.sandboxes import ProcessSandboxes


class LocalSandboxes(ProcessSandboxes):
    """Bounds what a program uses, and ends all that it starts. It protects no files: the program may do what the user may."""
