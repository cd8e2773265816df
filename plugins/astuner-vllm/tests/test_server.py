from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from astuner.shared.processes import ProgramSpec, launch, list_programs
from astuner_vllm.failures import ServerError
from astuner_vllm.server import start_server, wait_until_serving
from astuner_vllm.startup_faults import find_startup_fault

OUT_OF_MEMORY = """
where = "(EngineCore pid=7) ERROR 11-21 19:22:07 [core.py:12]"
print(where, "ValueError: Free memory on device (2/80 GiB) on startup is less than desired")
print("RuntimeError: Engine core initialization failed. See root cause above.")
raise SystemExit(1)
"""
TAKEN = """
import pathlib, sys
tries = pathlib.Path(sys.argv[2])
before = tries.read_text() if tries.exists() else ""
tries.write_text(before + sys.argv[1] + " ")
print("OSError: [Errno 98] Address already in use")
raise SystemExit(1)
"""


def start(programs: Any, program: str | None = None, **settings: Any) -> Any:
    plan = programs.plan(program, **settings) if program else programs.plan(**settings)
    return asyncio.run(start_server(plan, programs.say))


def test_a_server_is_returned_when_it_answers(programs: Any) -> None:
    launched = start(programs)
    assert [launched.record.id] == [record.id for record in list_programs()]
    launched.end()
    assert [level for level, _ in programs.said] == ["info", "info"]


def test_a_failed_start_is_explained_from_the_log_with_the_key_to_change(programs: Any) -> None:
    with pytest.raises(ServerError) as failure:
        start(programs, OUT_OF_MEMORY)
    text = str(failure.value)
    assert "vllm-0 did not start (exit status 1): ValueError: Free memory on device" in text
    assert "lower rollout.vllm.gpu_memory_utilization" in text
    assert "last lines of" in text
    # What only repeats that something failed is left out.
    assert "See root cause above" not in text


def test_a_server_that_never_serves_is_ended_at_the_time_limit(programs: Any) -> None:
    with pytest.raises(ServerError, match=r"did not serve within rollout\.vllm\.startup_timeout_s = 6") as failure:
        start(programs, "import time\nprint('still loading', flush=True)\ntime.sleep(600)", timeout_s=6)
    assert "still loading" in str(failure.value)


def test_what_another_run_could_not_start_is_explained_from_its_log(programs: Any, tmp_path: Path) -> None:
    log = tmp_path / "theirs.log"
    launched = launch(
        ProgramSpec(
            command=[sys.executable, "-c", OUT_OF_MEMORY], kind="server", name="theirs", log=log, url="http://127.0.0.1:1"
        )
    )
    with pytest.raises(ServerError, match="Free memory on device") as failure:
        asyncio.run(wait_until_serving(programs.plan(), launched, programs.say))
    assert f"last lines of {log}:" in str(failure.value)
    launched.end()


def test_a_port_that_was_taken_meanwhile_is_replaced_by_another(programs: Any) -> None:
    with pytest.raises(ServerError, match="another program listens at its port"):
        start(programs, TAKEN)
    assert len(set(programs.calls.read_text().split())) > 1


def test_a_port_that_was_asked_for_is_not_replaced(programs: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=r"set debug\.debug_vllm_port"):
            start(programs, TAKEN, port=port)
    assert [str(port)] == programs.calls.read_text().split()


def test_cancelling_a_start_leaves_no_server(programs: Any) -> None:
    async def cancelled() -> None:
        starting = asyncio.ensure_future(start_server(programs.plan("import time\ntime.sleep(600)"), programs.say))
        while not list_programs():
            await asyncio.sleep(0.05)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(cancelled())
    assert list_programs() == []


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("ValueError: User-specified max_model_len (4096) is greater than the derived max_model_len", "rollout.max_model_len"),
        (
            "ValueError: To serve at least one request with the model's max seq len (18000), (2 GiB KV cache is needed, which is "
            "larger than the available KV cache memory (1 GiB).",
            "rollout.vllm.cpu_kv_cache_gib",
        ),
        ("ValueError: No available memory for the cache blocks. Try increasing", "raise rollout.vllm.gpu_memory_utilization"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "lower rollout.vllm.gpu_memory_utilization"),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate",
            "rollout.vllm.cpu_kv_cache_gib",
        ),
        (
            "ValueError: Total number of attention heads (3) must be divisible by tensor parallel size (2).",
            "tensor_model_parallel",
        ),
        ("RuntimeError: Cannot find any model weights with `/models/x`", "model.path"),
        ("ValueError: Model architectures ['X'] are not supported for now.", "model.path"),
        ("vllm: error: unrecognized arguments: --swap=3", "rollout.vllm.engine_args"),
    ],
)
def test_each_known_fault_names_a_key(line: str, key: str) -> None:
    fault = find_startup_fault(f"(APIServer pid=3) INFO 11-21 19:26:14 [api.py:1] begins\n(Worker pid=9) {line}\n")
    assert fault is not None
    assert fault.reason == line
    assert key in (fault.remedy or "")


def test_an_unknown_fault_is_given_in_its_own_words() -> None:
    fault = find_startup_fault("INFO fine\n(EngineCore pid=7) ERROR 11-21 19:22:07 [core.py:12] KeyError: 'rope'\n")
    assert fault is not None
    assert (fault.reason, fault.remedy) == ("KeyError: 'rope'", None)


def test_a_log_without_errors_explains_nothing() -> None:
    assert find_startup_fault("INFO 11-21 19:26:14 [api.py:1] no Error: here\n") is None
