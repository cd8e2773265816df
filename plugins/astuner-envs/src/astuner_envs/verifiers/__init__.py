"""Environments of the package `verifiers`: the reader `verifiers` lists their tasks, and `VerifiersWorkflow` plays them.

The rollout and the rewards are the environment's own; only the model behind its agents is that of the run.
"""

from __future__ import annotations

from astuner_envs.verifiers.workflow import VerifiersWorkflow

__all__ = ["VerifiersWorkflow"]
