"""Trinity's configuration of a run on a known machine: every `auto` gets its value. Imports no Trinity."""

from __future__ import annotations

import copy
import math
import secrets
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import settle_sequences
from astuner.settings.config.rollout import Rollout
from astuner.settings.config.trees import get, merge, put
from astuner_trinity.layout import Layout
from astuner_trinity.native_keys import ALGORITHMS, BATCHES, ENTROPY, LONG_S, LOSS, MONITOR, OF_OUR_LOSS
from astuner_trinity.open_values import AUTO, as_plain_tree
from astuner_trinity.process_environment import Machine

NO_KEY = "EMPTY"
"""Trinity's default."""
ENGINES = 2
"""Engines of a cluster whose GPUs Trinity counts itself."""
RUNNERS_ON_CPU = 2
SEQUENCES = "explorer.rollout_model.extra_engine_args.max_num_seqs"
OWN_FUNCTIONS = ("advantage_fn", "policy_loss_fn", "kl_penalty_fn", "kl_loss_fn", "entropy_loss_fn")
STRATEGY = ("sample_strategy", "sample_strategy_args")
TOKEN_PARTS = f"{LOSS}.token_parts"
STAMP = "astuner_trinity.explorer.row_counts.StepStamp"
TRAINING = ("both", "colocate", "train")
COPIES = {
    "buffer.explorer_input.taskset.path": (f"{LOSS}.plan",),
    "algorithm.optimizer.lr": (f"{BATCHES}.lr",),
    "trainer.grad_clip": ("algorithm.optimizer.clip_grad",),
    "trainer.ulysses_sequence_parallel_size": (
        f"{LOSS}.sequence_parallel",
        f"{BATCHES}.sequence_parallel",
        "algorithm.entropy_loss_fn_args.sequence_parallel",
    ),
}
"""Other keys to which a value is copied: read by our parts, or by verl's optimizer instead of Trinity's key."""


@frozen(kw_only=True)
class Wanted:
    """What a run needs besides its configuration."""

    layout: Layout
    model: str
    """The source of the weights."""
    total_steps: int
    loss_agg_mode: str
    """The estimator's aggregation."""
    streams: bool = False
    """Whether the estimator adds terms to the loss (`EstimatorTraits.beyond_advantages`)."""
    groups_at_once: int = 1
    rollout: Rollout = field(factory=Rollout)
    """For what depends on the number of engines."""


def finish_configuration(native: Mapping[str, Any], machine: Machine, wanted: Wanted) -> dict[str, Any]:
    """Return the configuration with a value for every `auto`; raises `ConfigError` for what the machine cannot do."""
    tree: dict[str, Any] = copy.deepcopy(dict(native))
    plan, stand_in = str(wanted.layout.plan), machine.stand_in is not None
    _place(tree, machine, wanted.groups_at_once)
    if get(tree, SEQUENCES) == AUTO:
        engines = get(tree, "explorer.rollout_model.engine_num")
        put(tree, SEQUENCES, settle_sequences(wanted.rollout, engines=engines, gpu=not stand_in).value)
    _set_key(tree["explorer"])
    put(tree, "checkpoint_root_dir", str(wanted.layout.home))
    if get(tree, TOKEN_PARTS) == AUTO:
        put(tree, TOKEN_PARTS, str(wanted.layout.token_parts))
    if wanted.streams:
        put(tree, f"{LOSS}.streams", True)
        put(tree, f"{BATCHES}.streams", True)
    put(tree, "model.model_path", wanted.model)
    put(tree, "buffer.total_steps", wanted.total_steps)
    put(tree, "trainer.total_steps", wanted.total_steps)
    put(tree, "buffer.explorer_input.taskset.path", plan)
    for taskset in get(tree, "buffer.explorer_input.eval_tasksets") or ():
        taskset["path"] = plan
    validation = get(tree, "buffer.explorer_input.eval_tasksets")
    if tree["mode"] == "bench" and not tree["stages"]:
        put(tree, "synchronizer.sync_style", "fixed")
        tree["explorer"] = _enable_measuring(tree["explorer"])
    elif get(tree, "synchronizer.sync_style") == "fully_async":
        # Trinity refuses them there; validation is played with the training tasks anyway.
        put(tree, "buffer.explorer_input.eval_tasksets", [])
    buffer = get(tree, "buffer.trainer_input.experience_buffer")
    if tree["mode"] in ("both", "colocate"):
        buffer.setdefault("max_read_timeout", float(LONG_S))
    if not tree["stages"]:
        # Two runs with one name on one cluster, or a run and its evaluation, would share actors.
        tree["ray_namespace"] = tree["ray_namespace"] or f"{tree['project']}/{tree['name']}/{secrets.token_hex(4)}"
    if get(tree, "trainer.use_remove_padding") == AUTO:
        put(tree, "trainer.use_remove_padding", machine.flash_attention and not stand_in)
    if get(tree, "synchronizer.sync_method") == AUTO:
        put(tree, "synchronizer.sync_method", _sync_method(tree, stand_in))
    own = copy.deepcopy(get(tree, "trainer.trainer_config") or {})
    _precision(tree, machine)
    # The user's values take precedence.
    tree["trainer"]["trainer_config"] = merge(get(tree, "trainer.trainer_config"), own)
    _monitor(tree, wanted.layout)
    _algorithm(tree)
    _copy(tree)
    arguments = get(tree, "algorithm.sample_strategy_args") or {}
    arguments |= {
        "plan": plan,
        "total_steps": wanted.total_steps,
        "loss_agg_mode": wanted.loss_agg_mode if arguments.get("loss_agg_mode", AUTO) == AUTO else arguments["loss_agg_mode"],
        # The divergence, the entropy, or one of Trinity's losses, also trains on rows without an advantage.
        "every_row": get(tree, "algorithm.algorithm_type") not in ALGORITHMS
        or bool(get(tree, f"{LOSS}.kl_loss_coef") or get(tree, ENTROPY)),
        "needs_advantage": get(tree, "algorithm.algorithm_type") in ALGORITHMS,
        "gpus": get(tree, "cluster.node_num") * get(tree, "cluster.gpu_per_node") or None,
        "engine_gpus": 0 if tree["mode"] == "train" else _engine_gpus(tree),
    }
    tree["stages"] = [_stage(stage, tree, validation) for stage in tree["stages"]]
    return as_plain_tree(tree)


def _set_key(explorer: dict[str, Any]) -> None:
    """Give the servers of all engines one key, unless the user chose it: whoever has it may ask the model in training."""
    chosen = explorer["rollout_model"].get("api_key")
    key = secrets.token_hex(32) if chosen in (None, NO_KEY) else chosen
    for engine in (explorer["rollout_model"], *explorer["auxiliary_models"]):
        engine["api_key"] = key


def _place(tree: dict[str, Any], machine: Machine, groups: int) -> None:
    """Divide the GPUs between engines and trainer, and the groups among runners; raises `ConfigError` for too few GPUs."""
    place_gpus(tree, machine)
    explorer = tree["explorer"]
    if explorer["runner_per_model"] == AUTO:
        explorer["runner_per_model"] = max(1, math.ceil(groups / explorer["rollout_model"]["engine_num"]))
    if machine.stand_in:
        # Each runner is a process that imports Trinity, and the one engine has one core.
        explorer["runner_per_model"] = min(RUNNERS_ON_CPU, explorer["runner_per_model"])


def place_gpus(tree: dict[str, Any], machine: Machine) -> None:
    """Divide the GPUs between engines and trainer; raises `ConfigError` for too few."""
    engine = tree["explorer"]["rollout_model"]
    spread = engine["tensor_parallel_size"] * engine["data_parallel_size"] * engine["pipeline_parallel_size"]
    asked = engine["engine_num"]
    cluster = tree["cluster"]
    if machine.stand_in:
        engine["engine_num"] = 1 if asked == AUTO else asked
        cluster["node_num"] = 1
        if tree["mode"] == "colocate":
            cluster["gpu_per_node"] = 1
        cluster["gpu_per_node"] = cluster["gpu_per_node"] or spread * engine["engine_num"] + 1
        return
    if machine.gpus:
        # By default Trinity counts them itself, and changes every mode to `colocate` if it finds only one.
        cluster["node_num"] = cluster["node_num"] or machine.nodes
        cluster["gpu_per_node"] = cluster["gpu_per_node"] or machine.gpus
    there = (cluster["node_num"] or 1) * cluster["gpu_per_node"]
    tree["mode"] = _mode(tree["mode"], tree)
    modes = {_mode(stage.get("mode") or tree["mode"], tree) for stage in tree["stages"]} or {tree["mode"]}
    if asked == AUTO:
        # Episodes of agents take as long as updates, or longer: half of the GPUs play, or all where nothing is trained.
        playing = there if modes <= {"explore", "bench", "serve"} else there // 2
        engine["engine_num"] = max(1, playing // spread) if there else ENGINES
    if "both" in modes and there and spread * engine["engine_num"] >= there:
        message = (
            f"{engine['engine_num']} engine(s) of {spread} GPU(s) and a trainer are asked for, and there are {there} GPUs. Lower "
            "rollout.n_vllm_engine or tensor_model_parallel_size, or add GPUs."
        )
        raise ConfigError([Problem(key="astuner.rollout.n_vllm_engine", message=message)])


def _mode(mode: str, tree: Mapping[str, Any]) -> str:
    """Return the mode of an explorer and a trainer that share one GPU."""
    cluster = tree["cluster"]
    return "colocate" if mode == "both" and (cluster["node_num"] or 1) * cluster["gpu_per_node"] == 1 else mode


def _engine_gpus(tree: Mapping[str, Any]) -> int:
    engine = tree["explorer"]["rollout_model"]
    spread = engine["tensor_parallel_size"] * engine["data_parallel_size"] * engine["pipeline_parallel_size"]
    others = sum(one.get("tensor_parallel_size", 1) * one.get("engine_num", 1) for one in tree["explorer"]["auxiliary_models"])
    return int(spread * engine["engine_num"] + others)


def _sync_method(tree: Mapping[str, Any], stand_in: bool) -> str:
    if tree["model"]["lora_configs"]:
        return "checkpoint"
    if tree["mode"] not in ("both", "colocate"):
        # Explorer and trainer do not run at the same time.
        return "checkpoint"
    return "memory" if stand_in or tree["mode"] == "colocate" else "nccl"


def _precision(tree: dict[str, Any], machine: Machine) -> None:
    """Use the same precision in engine and trainer, and what is installed."""
    dtype = get(tree, "explorer.rollout_model.dtype")
    if dtype == AUTO:
        dtype = "float32" if machine.stand_in else "bfloat16"
        put(tree, "explorer.rollout_model.dtype", dtype)
    if dtype == "float32":
        mixed = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
        for part in ("actor", "ref"):
            put(tree, f"trainer.trainer_config.{part}.fsdp_config.mixed_precision", dict(mixed))
    if not get(tree, "trainer.use_remove_padding"):
        put(tree, "trainer.trainer_config.model.override_config.attn_implementation", "sdpa")
    if machine.stand_in:
        # vLLM for the CPU counts all memory of the machine as its own.
        tree["explorer"]["rollout_model"] |= {"enforce_eager": True, "gpu_memory_utilization": 0.05}
        put(tree, "trainer.param_offload", False)
        put(tree, "trainer.optimizer_offload", False)
        put(tree, "trainer.trainer_config.model.enable_gradient_checkpointing", False)
        put(tree, "trainer.trainer_config.actor.use_torch_compile", False)
        put(tree, "trainer.trainer_config.ref.fsdp_config.model_dtype", "fp32")
        for part in ("actor", "ref"):
            put(tree, f"trainer.trainer_config.{part}.fsdp_config.use_torch_compile", False)


def _monitor(tree: dict[str, Any], layout: Layout) -> None:
    monitor = tree["monitor"]
    also = {} if monitor["monitor_type"] == MONITOR else {monitor["monitor_type"]: monitor["monitor_args"] or {}}
    monitor |= {"monitor_type": MONITOR, "monitor_args": {"records": str(layout.records), "also": also}}


def _algorithm(tree: dict[str, Any]) -> None:
    """Let one of Trinity's algorithms replace our settings, except those that the user chose."""
    algorithm = tree["algorithm"]
    if algorithm["algorithm_type"] in ALGORITHMS:
        return
    if algorithm["algorithm_type"].startswith("mix"):
        # It mixes in rows of an auxiliary buffer, which its own strategy reads.
        algorithm |= {"sample_strategy": None, "sample_strategy_args": None}
    algorithm["policy_loss_fn_args"] = {
        name: value for name, value in algorithm["policy_loss_fn_args"].items() if name not in OF_OUR_LOSS
    } or None
    if not get(tree, ENTROPY):
        # Each of Trinity's functions has this argument; one of the user's may have others.
        own = {name: value for name, value in algorithm["entropy_loss_fn_args"].items() if name != "entropy_coef"}
        algorithm["entropy_loss_fn_args"] = own or None
    for name in OWN_FUNCTIONS:
        if str(algorithm[name]).startswith("astuner_trinity.") or algorithm[name] == "none":
            algorithm[name] = None
    _stamp_advantages(algorithm)
    tree["data_processor"] = _add_stamp(tree["data_processor"])


def _stamp_advantages(algorithm: dict[str, Any]) -> None:
    """Count the rows of a step after Trinity's algorithm has computed advantages, which may drop rows."""
    algorithm["advantage_fn_args"] = {
        "algorithm": algorithm["algorithm_type"],
        "advantage_fn": algorithm.get("advantage_fn"),
        "advantage_fn_args": algorithm.get("advantage_fn_args"),
    }
    algorithm["advantage_fn"] = STAMP
    if isinstance(arguments := algorithm.get("sample_strategy_args"), dict):
        arguments |= {"every_row": True, "needs_advantage": False}


def _add_stamp(data_processor: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section with this count at its end, for algorithms whose advantages the trainer computes."""
    operators = [one for one in get(data_processor, "experience_pipeline.operators") or () if one["name"] != STAMP]
    return merge(data_processor, {"experience_pipeline": {"operators": [*operators, {"name": STAMP}]}})


def _copy(tree: dict[str, Any]) -> None:
    """Copy values to the other keys where they are read."""
    for key, copies in COPIES.items():
        for copied in copies:
            reader = get(tree, copied.rpartition(".")[0].removesuffix("_args"))
            # Trinity's own function takes none of our arguments.
            if isinstance(reader, Mapping) or str(reader).startswith("astuner_trinity."):
                put(tree, copied, get(tree, key))


def _enable_measuring(explorer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of a measuring explorer: it waits for every task, which Trinity supports only in the style `fixed`."""
    return merge(explorer, {"eval_on_startup": True, "over_rollout": {"ratio": 0.0, "return_partial_tasks": False}})


def _stage(stage: Mapping[str, Any], tree: Mapping[str, Any], validation: Any) -> dict[str, Any]:
    """Return a complete stage: Trinity replaces the run's sections by the stage's, so missing values are added.

    A section `algorithm` of another type gets only the optimizer.
    """
    found = {name: value for name, value in stage.items() if value is not None}
    mode = _mode(found.get("mode") or tree["mode"], tree)
    if "mode" in found:
        found["mode"] = mode
    for name in ("buffer", "explorer", "trainer", "data_processor"):
        if found.get(name):
            found[name] = merge(copy.deepcopy(tree[name]), found[name])
    if (own := found.get("algorithm")) is not None:
        kind = own.get("algorithm_type", tree["algorithm"]["algorithm_type"])
        if kind in ALGORITHMS:
            found["algorithm"] = merge(copy.deepcopy(tree["algorithm"]), own)
        else:
            kept = ("optimizer", "repeat_times") if kind.startswith("mix") else ("optimizer", "repeat_times", *STRATEGY)
            found["algorithm"] = merge({name: copy.deepcopy(tree["algorithm"][name]) for name in kept}, own)
            found["algorithm"]["algorithm_type"] = kind
            _stamp_advantages(found["algorithm"])
    if "algorithm" in found or "data_processor" in found:
        kind = (found.get("algorithm") or tree["algorithm"])["algorithm_type"]
        if kind not in ALGORITHMS:
            found["data_processor"] = _add_stamp(found.get("data_processor") or tree["data_processor"])
    if "algorithm" in found or "trainer" in found:
        whole = {name: copy.deepcopy(found.get(name) or tree[name]) for name in ("algorithm", "trainer", "buffer")}
        _copy(whole)
        found["algorithm"] = whole["algorithm"]
    if mode == "bench":
        found["explorer"] = _enable_measuring(found.get("explorer") or tree["explorer"])
        if validation != get(tree, "buffer.explorer_input.eval_tasksets"):
            found["buffer"] = copy.deepcopy(found.get("buffer") or tree["buffer"])
            put(found["buffer"], "explorer_input.eval_tasksets", validation)
    if (
        mode in TRAINING
        and (steps := get(found, "buffer.total_steps"))
        and "buffer" in stage
        and "total_steps" in stage["buffer"]
    ):
        trainer = copy.deepcopy(found.get("trainer") or tree["trainer"])
        trainer["total_steps"] = steps
        found["trainer"] = trainer
    return found
