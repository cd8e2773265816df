"""The keys of AgentJet that are not ours: their present names, and what took the place of those without a counterpart."""

from __future__ import annotations

from collections.abc import Mapping

ROOTS = ("ajet", "astune")
"""The names of the root section."""

HYDRA = ("hydra", "defaults")
"""Root sections that say where default values are read from; here they are in the configuration's own model."""

NATIVE = ("trinity", "verl")
"""Root sections that are the same here."""

VERL = (
    "actor_rollout_ref",
    "algorithm",
    "critic",
    "custom_reward_function",
    "data",
    "ray_init",
    "ray_kwargs",
    "reward_model",
    "trainer",
)
"""Root sections of verl's own configuration, which are below `verl` here."""

RENAMED: Mapping[str, str] = {
    "rollout.force_disable_toolcalls": "rollout.agentscope_disable_toolcalls",
    "task_runner.wrapper_multiprocessing_timeout": "rollout.episode_timeout_s",
}
"""Old path → present path, below the root."""

DROPPED: Mapping[str, str] = {
    "enable_experimental_interchange_server": "the gateway always serves agents over HTTP",
    "interchange_server": "the gateway always serves agents over HTTP: gateway.host and gateway.port are its address",
    "rollout.mode": "calls are always asynchronous",
    "rollout.enable_oversample": "a group is judged when its last episode is over",
    "task_runner.llm_infer_submit_method": "calls are always asynchronous",
    "task_runner.wrapper_type": "rollout.isolation says where a workflow runs; each of AgentJet's has a thread of its own",
    "trainer_common.checkpoint_base_dir": "checkpoints are in the run directory, which experiment_dir names",
    "trainer_common.save_trajectory_as_json_file": "every episode is stored in the run directory; `astuner episodes` shows them",
}
"""Old path → what took its place."""

DROPPED_VERL: Mapping[str, str] = {
    "trainer.default_local_dir": "experiment_dir names the run directory, with its checkpoints",
    "trainer.logger": "trainer_common.logger",
    "trainer.project_name": "project_name",
    "trainer.experiment_name": "experiment_name",
}
"""Native keys of verl that one of our keys decides."""

READERS: Mapping[str, str] = {
    "deep_finance": "tutorial.example_deep_finance.deep_finance_reader->DeepFinanceReader",
}
"""Readers of AgentJet's own examples, which it knows by a short name → their code, which is in the project."""

EMBEDDING = ("db_path", "model", "api_key", "base_url")
"""Parameters of the filter `deduplication` of traces that address an embedding API."""

PATHS = (
    "model.path",
    "task_reader.dataset_file.training.file_path",
    "task_reader.dataset_file.validation.file_path",
    "task_reader.jsonl_dataset_file.training.file_path",
    "task_reader.jsonl_dataset_file.validation.file_path",
    "task_reader.huggingface_dat_repo.dataset_path",
    "task_reader.tracing.base_url",
    "task_reader.feedback_tracing.base_url",
    "task_reader.data_generation.query_reader.jsonl_dataset_file.training.file_path",
    "task_reader.data_generation.query_reader.dataset_file.training.file_path",
    "task_reader.data_generation.document_reader.document_path",
    "task_judge.rubrics_auto_grader.dataset_file.training.file_path",
    "task_judge.rubrics_auto_grader.jsonl_dataset_file.training.file_path",
)
"""Places of files, which AgentJet reads from the working directory; here they start at the YAML."""

OUTPUT_PATHS = ("task_reader.tracing.train_output_path", "task_reader.feedback_tracing.train_output_path")
"""Places of files that are written."""

PROGRAMS = ("rollout.user_workflow", "task_judge.judge_protocol", "task_reader.type")
"""Keys that name code, which may be in a file: `tutorial/example/agent.py->Agent`."""
