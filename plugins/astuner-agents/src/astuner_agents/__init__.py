"""Workflows that run an agent as it is shipped: a program, described in the section `agent` of the YAML."""

from astuner_agents.command_workflow import CommandWorkflow

Command = CommandWorkflow
"""Named in `rollout.user_workflow: astuner_agents:Command`."""

__all__ = ["Command", "CommandWorkflow"]
