"""Plays an environment of `verifiers` with the model of the run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar
from uuid import uuid4

from astuner.contract.errors import PluginError
from astuner.contract.protocols import ChatModel, Tuner, Workflow
from astuner.contract.schema import WorkflowOutput, WorkflowTask
from astuner_envs.verifiers.loading import build_task, check_installed, get_roles, load_environment, resolve_environment
from astuner_envs.verifiers.outcomes import collect_output, raise_failure
from astuner_envs.verifiers.task_record import METADATA_KEY, read_record


class VerifiersWorkflow(Workflow):
    """Runs the environment's own rollout, one environment per episode; its agents ask the gateway, each under its role.

    An agent with a `client` of its own keeps that endpoint. Where an environment freezes an agent, name the roles that are
    trained in `trainable_targets` of a subclass.
    """

    trainable_targets: ClassVar[Sequence[str] | None] = None

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play one episode. Raises what ended it: `ServiceUnavailable` for a sandbox, `EpisodeFailed` for anything else."""
        check_installed("VerifiersWorkflow")
        from verifiers.v1 import EvalClientConfig, ModelContext

        record = read_record(workflow_task.task)
        config = resolve_environment(record.environment, f"metadata.{METADATA_KEY}.environment")
        with _lend_key(tuner, config) as (client_of, roles):
            config = config.model_copy(update={role: spec.model_copy(update=client_of[role]) for role, spec in roles.items()})
            environment = load_environment(config, f"metadata.{METADATA_KEY}.environment")
            # Unused: each role that asks the gateway has a client of its own.
            context = ModelContext(model="unused", client=EvalClientConfig(base_url="http://127.0.0.1:9"))
            async with environment.serving():
                episode = await environment.run_episode(build_task(environment, record.data), context)
        raise_failure(episode, config.env_id)
        self._check_frozen(episode, roles)
        return collect_output(episode, record.success_reward)

    def _check_frozen(self, episode: Any, roles: Mapping[str, Any]) -> None:
        """Refuse to train the calls of an agent that the environment freezes."""
        frozen = {trace.agent.name for trace in episode.traces if not trace.agent.trainable} & roles.keys()
        trained = self.trainable_targets
        if wrong := sorted(role for role in frozen if trained is None or role in trained):
            others = sorted({trace.agent.name for trace in episode.traces} - frozen)
            raise PluginError(
                f"environment '{episode.env.id}' does not train {', '.join(wrong)}: give it an endpoint of its own "
                f"(task_reader.verifiers.env.{wrong[0]}.client), or play a subclass of VerifiersWorkflow with "
                f"trainable_targets = {others!r}"
            )


@contextmanager
def _lend_key(tuner: Tuner, config: Any) -> Iterator[tuple[Mapping[str, Mapping[str, Any]], Mapping[str, Any]]]:
    """Give each role without an endpoint the run's model; yield the changes by role, and the roles.

    `verifiers` reads keys from environment variables only. A name with `API_KEY` is kept from the programs that it starts.
    """
    from verifiers.v1 import EvalClientConfig

    roles = {role: spec for role, spec in get_roles(config).items() if spec.client is None}
    changes: dict[str, Mapping[str, Any]] = {}
    variables: list[str] = []
    try:
        for role in roles:
            model: ChatModel = tuner.as_oai_baseurl_apikey(agent_name=role, target_tag=role)
            variables.append(f"ASTUNER_API_KEY_{uuid4().hex.upper()}")
            os.environ[variables[-1]] = model.api_key
            client = EvalClientConfig(base_url=model.base_url, api_key_var=variables[-1])
            changes[role] = {"client": client, "model": model.model}
        yield changes, roles
    finally:
        for variable in variables:
            os.environ.pop(variable, None)
