"""The keys that core itself acts on, whatever the backbone, or the reasons why not."""

from __future__ import annotations

from collections.abc import Mapping

CORE_HONOURED: tuple[str, ...] = (
    "project_name",
    "experiment_name",
    "experiment_dir",
    "backbone",
    "seed",
    "model.path",
    "model.tool_call_format",
    "data.max_prompt_length",
    "data.max_response_length",
    "data.train_batch_size",
    "data.shuffle",
    "rollout.use_agentscope_protocol",
    "rollout.user_workflow",
    "rollout.agentscope_disable_toolcalls",
    "rollout.max_env_worker",
    "rollout.max_response_length_in_one_turn",
    "rollout.max_model_len",
    "rollout.multi_turn.max_sample_per_task",
    "rollout.multi_turn.max_steps",
    "rollout.num_repeat",
    "rollout.compute_madness_checklist",
    "rollout.agent_madness_termination",
    "rollout.agent_madness_reward",
    "rollout.detectors.*",
    "rollout.temperature",
    "rollout.top_p",
    "rollout.top_k",
    "rollout.val_kwargs.temperature",
    "rollout.val_kwargs.top_k",
    "rollout.val_kwargs.top_p",
    "rollout.val_kwargs.do_sample",
    "rollout.seed",
    "rollout.isolation",
    "rollout.episode_timeout_s",
    "rollout.llm_timeout_s",
    "rollout.max_retries",
    "rollout.failure_budget",
    "task_reader.type",
    "task_judge.judge_type",
    "task_judge.judge_protocol",
    "task_judge.judges",
    "task_judge.reward",
    "task_judge.alien_llm_model",
    "task_judge.alien_llm_response_length",
    "context_tracker.context_tracker_type",
    "context_tracker.alien_llm_model",
    "context_tracker.alien_llm_response_length",
    "context_tracker.max_env_len",
    "context_tracker.timeline_merging_policy",
    "context_tracker.detect_timeline_snap",
    "environment.environment_type",
    "environment.env_action_preference",
    # The sections of components, as `walk_schema` writes them.
    "rollout.[*]",
    "task_reader.[*]",
    "task_judge.[*]",
    "context_tracker.[*]",
    "environment.[*]",
    "trainer_common.logger",
    "trainer_common.total_epochs",
    "trainer_common.total_training_steps",
    "trainer_common.val_pass_n",
    "trainer_common.algorithm.adv_estimator",
    "trainer_common.algorithm.norm_adv_by_std_in_grpo",
    "trainer_common.algorithm.norm_adv_by_agent",
    "plugins.disabled",
    "plugins.required",
    "plugins.options.*",
    "services.*",
    "gateway.host",
    "gateway.port",
    "gateway.public_url",
    "gateway.max_body_bytes",
)
"""Keys that core acts on: it reads the tasks, plays and judges the episodes, computes the advantages and logs. All others (when
to validate and save, the optimiser, the loss, the hardware) are the backbone's."""

CORE_INAPPLICABLE: Mapping[str, str] = {
    "execute_test": "reserved for automated tests",
    "execute_testing_lambda": "reserved for automated tests",
    "context_tracker.log_tool_format_check": "malformed tool calls are reported once; rollout.compute_madness_checklist: "
    "[wrong_toolcall] keeps the evidence of each",
    "context_tracker.log_tool_format_error_detail": "malformed tool calls are reported once; rollout.compute_madness_checklist: "
    "[wrong_toolcall] keeps the evidence of each",
    "trainer_common.algorithm.task_norm_patch": "advantages are always taken per task and episode",
}
"""Keys that mean nothing to any backbone, with the reason; setting one is answered with a notice."""

CORE_REFUSED: Mapping[str, str] = {
    "context_tracker.fix_retokenization_drift": "a sampled token is never encoded again, so there is no drift to leave in",
    "rollout.gamma": "advantages are taken per episode, so there is no step to discount from",
}
"""Keys whose absence would change what a run does, so that setting one is an error, with the reason."""
