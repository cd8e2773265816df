"""The user's arguments of `vllm serve`: which exist, which are ours, and their form on a command line."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from astuner.settings.config.structure_errors import Fault, find_closest

OURS: Mapping[str, str] = {
    "model": "set model.path",
    "model_tag": "set model.path",
    "dtype": "set model.dtype",
    "seed": "set rollout.seed",
    "tensor_parallel_size": "set rollout.tensor_model_parallel_size",
    "max_model_len": "set rollout.max_model_len",
    "max_num_seqs": "set rollout.max_num_seqs",
    "gpu_memory_utilization": "set rollout.vllm.gpu_memory_utilization",
    "enforce_eager": "set rollout.vllm.enforce_eager",
    "enable_lora": "set model.lora_rank",
    "max_lora_rank": "set model.lora_rank",
    "max_loras": "set model.adapters",
    "lora_modules": "set model.lora_rank",
    "host": "servers listen on this machine only; set rollout.vllm.url for one elsewhere",
    "port": "set debug.debug_vllm_port with the backbone debug; elsewhere free ports are taken",
    "uds": "servers are talked to over a port",
    "api_key": "the servers of a run get their own key",
    "middleware": "the servers of a run get their own key",
    "root_path": "servers are talked to at the root",
    "ssl_keyfile": "servers listen on this machine only",
    "ssl_certfile": "servers listen on this machine only",
    "served_model_name": "requests name the model themselves",
    "logprobs_mode": "training needs the log-probabilities of the sampling distribution",
    "generation_config": "set rollout.temperature, rollout.top_p and rollout.top_k",
    "override_generation_config": "set rollout.temperature, rollout.top_p and rollout.top_k",
    "worker_extension_cls": "LoRA adapters are replaced through it",
    "weight_transfer_config": "new weights come through a way of our own",
    "enable_scale_out": "it is always on",
    "tokens_only": "the server gives token ids anyway, and its other endpoints are used too",
    "api_server_count": "one server answers at each port; set rollout.n_vllm_engine for more",
    "data_parallel_size": "set rollout.n_vllm_engine",
    "headless": "servers are talked to over HTTP",
    "grpc": "servers are talked to over HTTP",
    "config": "write the arguments here",
}
"""Arguments that the user must not set, with what to do instead."""

_ENGINE = ("engine/arg_utils.py",)
# From 0.33 on in the first, and before in the second.
_SERVER = ("entrypoints/common/cli_args.py", "entrypoints/launchers/cli_args.py")
_SOURCES = {_ENGINE: ("EngineArgs", "AsyncEngineArgs"), _SERVER: ("BaseFrontendArgs", "FrontendArgs")}
_PLAIN: Mapping[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,)}


def explain_reserved(name: str) -> str | None:
    """Return what to do instead of setting one of our arguments; None for one that the user may set."""
    return OURS.get(_normalise(name))


def command_words(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of a command line."""
    for name, value in arguments.items():
        option = "--" + _normalise(name).replace("_", "-")
        if value is None:
            continue
        if value is True:
            yield option
        elif value is False:
            yield f"--no-{option[2:]}"
        elif isinstance(value, Mapping):
            yield from (option, json.dumps(value, sort_keys=True))
        elif isinstance(value, (list, tuple)):
            yield from (option, *map(str, value))
        else:
            yield f"{option}={value}"


def find_faults(arguments: Mapping[str, Any], package: Path) -> Iterator[Fault]:
    """Yield names that the installed vLLM does not know, and values of a wrong type.

    The declarations are read from its sources: importing it takes seconds and torch. Its own parser checks values when the
    server starts.
    """
    known = read_declared_arguments(package)
    if not known:
        yield Fault(message=f"cannot be checked: {package} declares the arguments of `vllm serve` in none of the known files")
        return
    for name, value in arguments.items():
        if _normalise(name) not in known:
            message = "the installed vLLM has no such argument; `vllm serve --help=all` lists them."
            meant = find_closest(_normalise(name), known)
            yield Fault(path=(name,), message=message, suggestion=meant, kind="unknown_key")
        elif (kinds := known[_normalise(name)]) and not _fits(value, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            yield Fault(path=(name,), message=f"vLLM wants {names} here, and got {value!r}.")


def _fits(value: Any, kinds: tuple[type, ...]) -> bool:
    # bool is an int in Python, but not on vLLM's command line.
    return value is None or type(value) in kinds


@cache
def read_declared_arguments(package: Path) -> Mapping[str, tuple[type, ...]]:
    """Return the arguments that a vLLM package declares, each with its types, if these are plain ones.

    Empty if a file of the declarations is not in its expected place.
    """
    found: dict[str, tuple[type, ...]] = {}
    for places, classes in _SOURCES.items():
        source = next((package / place for place in places if (package / place).is_file()), None)
        if source is None:
            return {}
        tree = ast.parse(source.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name in classes:
                found.update((name, _types(annotation)) for name, annotation in _fields(node))
    return found


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement.annotation


def _types(annotation: ast.expr) -> tuple[type, ...]:
    parts = set(_union(annotation)) - {"None"}
    if not parts or not parts <= _PLAIN.keys():
        return ()
    return tuple(dict.fromkeys(kind for part in sorted(parts) for kind in _PLAIN[part]))


def _union(annotation: ast.expr) -> Iterable[str]:
    if isinstance(annotation, ast.BinOp):
        return [*_union(annotation.left), *_union(annotation.right)]
    return [ast.unparse(annotation)]


def _normalise(name: str) -> str:
    return name.lstrip("-").replace("-", "_")
