"""Workflows that run an agent as it is shipped: a program, described in the section `agent` of the YAML."""

from astuner.agents.command_workflow import CommandWorkflow

Command = CommandWorkflow
"""Named in `rollout.user_workflow: astuner.agents:Command`."""

__all__ = ["Command", "CommandWorkflow"]
