"""What everything around the engine costs: episodes through workflow, gateway, tree and runner against the bare engine.

python benchmarks/rollout.py [--engine local|vllm] [--model DIR | --size tiny|0.5b] [--concurrent 32 --episodes 64 --turns 3 …]

A round plays the episodes, then gives the engine the very requests that they made (each episode's one after the other, as many
episodes at a time), and with vLLM also posts them to its server as a plain HTTP client would, without streaming. The first id
of each replayed prompt is another one, so that no cache knows it. Without `--model` the weights are random, and the model
hardly ever ends a turn on its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml
from attrs import define, evolve, field
from words import help_tokenizer

from astuner.contract.protocols import Engine, RunInfo
from astuner.contract.schema import Chunk, Request, Task
from astuner.episodes.rollout.host import make_training_sampling, open_rollouts
from astuner.episodes.rollout.runner import Round
from astuner.model.rendering import load_renderer
from astuner.runs.store.episode_store import EpisodeFiles
from astuner.settings.planning.plan import Plan, plan_run

HERE = Path(__file__).parent
SIZES = {
    "tiny": {
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
    },
    "0.5b": {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
}
"""Random weights in the shape of Qwen3: about 1 M parameters in float32, and the layers of Qwen3-0.6B in bfloat16."""

KEY = "benchmark"
KEY_VARIABLE = "ROLLOUT_BENCHMARK_KEY"


@define(eq=False)
class Counted:
    """An engine that remembers what it was asked and how many tokens it gave."""

    engine: Engine
    requests: list[Request] = field(factory=list)
    tokens: int = 0

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Pass the tokens on."""
        self.requests.append(request)
        async for chunk in self.engine.generate(request):
            self.tokens += len(chunk.ids)
            yield chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def make_model(directory: Path, size: str) -> Path:
    """Save a model with random weights and a tokenizer of 8,000 words."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = help_tokenizer()
    torch.manual_seed(0)
    ends = {"eos_token_id": tokenizer.eos_token_id, "tie_word_embeddings": False}
    config = Qwen3Config(vocab_size=len(tokenizer), **SIZES[size], **ends)
    Qwen3ForCausalLM(config).to(torch.float32 if size == "tiny" else torch.bfloat16).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def write_project(directory: Path, given: argparse.Namespace, urls: Sequence[str]) -> Path:
    """Write the YAML of the run that is measured."""
    tasks = [{"main_query": f"Tell story {number}.", "metadata": {}} for number in range(2)]
    (directory / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks), encoding="utf-8")
    rollout: dict[str, Any] = {
        "user_workflow": f"{HERE / 'rollout_agent.py'}:Chat",
        "name": given.engine,
        "max_env_worker": given.concurrent,
        "max_num_seqs": given.concurrent,
        "max_model_len": 4096,
        "temperature": 1.0,
        "num_repeat": 2,
    }
    if urls:
        rollout["vllm"] = {"url": list(urls), "api_key_env": KEY_VARIABLE}
    reader = {"type": "dataset_file", "dataset_file": {"training": {"file_path": "tasks.jsonl"}}}
    data = {"max_prompt_length": 1024, "max_response_length": 3072}
    section = {"backbone": "local", "model": {"path": str(given.model)}, "data": data, "rollout": rollout, "task_reader": reader}
    conf = directory / "rollout.yaml"
    conf.write_text(yaml.safe_dump({"astuner": {**section, "experiment_dir": str(directory / "run")}}), encoding="utf-8")
    return conf


@contextlib.contextmanager
def server(plan: Plan, given: argparse.Namespace, directory: Path) -> Iterator[tuple[str, int]]:
    """Run a vLLM server; yield its address and the pid of its group."""
    from astuner.settings.config.model import Ready
    from astuner.shared.processes import ProgramSpec, free_port, launch, wait_until_ready
    from astuner_vllm.command import server_command
    from astuner_vllm.installed import installed
    from astuner_vllm.options import VllmOptions

    port = free_port()
    command = server_command(VllmOptions(), plan.run_info(), port=port, vllm=installed(), api_key=KEY)
    spec = ProgramSpec(command=command.argv, kind="server", name="vllm", log=directory / "vllm.log", env=command.env)
    launched = launch(spec)
    try:
        ready = Ready(url=f"http://127.0.0.1:{port}/health")
        asyncio.run(wait_until_ready(launched, ready, 600.0, lambda text: None))
        yield f"http://127.0.0.1:{port}", launched.record.pid
    except BaseException:
        print(launched.tail(400))
        raise
    finally:
        launched.end()


def cpu_s(pid: int | None) -> float:
    """Return the CPU seconds of a process and all below it."""
    if pid is None:
        return 0.0
    group = psutil.Process(pid)
    return sum(each.cpu_times().user + each.cpu_times().system for each in (group, *group.children(recursive=True)))


def replay(requests: Sequence[Request], number: int) -> list[list[Request]]:
    """Return the requests of each episode in their order, with another first id."""
    sessions: dict[str, list[Request]] = defaultdict(list)
    for request in requests:
        prompt = [number + 10, *list(request.prompt_ids)[1:]]
        name = f"{request.session}/{number}"
        sessions[name].append(evolve(request, id=f"{request.id}/{number}", session=name, prompt_ids=prompt))
    return list(sessions.values())


async def one_after_the_other(
    sessions: Sequence[Sequence[Request]], concurrent: int, ask: Callable[[Request], Awaitable[int]]
) -> int:
    """Ask for the answers of some sessions at a time; return how many tokens came."""
    places = asyncio.Semaphore(concurrent)

    async def play(requests: Sequence[Request]) -> int:
        async with places:
            return sum([await ask(request) for request in requests])

    return sum(await asyncio.gather(*map(play, sessions)))


async def measure(
    plan: Plan, given: argparse.Namespace, url: str | None, pid: int | None
) -> list[dict[str, Mapping[str, float]]]:
    """Return wall and CPU seconds, tokens and episodes of each way in each round."""
    from astuner.settings.plugins.hooks import Hooks

    info: RunInfo = plan.run_info()
    info.directory.mkdir(parents=True, exist_ok=True)
    hooks = Hooks(plan.catalog, on_listener_error=print, options={})
    component = plan.recipe.engine
    assert component is not None
    engine = Counted(hooks.make_engine(component.candidate, component.options, info)())
    metadata = {"turns": given.turns, "tokens": given.tokens}
    rows = []
    async with (
        httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None), trust_env=False) as http,
        open_rollouts(
            engine=engine,  # type: ignore[arg-type] # it has all that the engine has
            renderer=load_renderer(str(given.model)),
            parts=plan.recipe.build(info, hooks),
            run_info=info,
            store=EpisodeFiles(info.directory / "episodes"),
            notify=print,
        ) as runner,
    ):

        async def ask_engine(request: Request) -> int:
            return sum([len(chunk.ids) async for chunk in engine.engine.generate(request)])

        async def ask_server(request: Request) -> int:
            from astuner_vllm.generate_request import build_body

            body = {**build_body(request, None), "stream": False}
            answer = await http.post(f"{url}/inference/v1/generate", json=body, headers={"authorization": f"Bearer {KEY}"})
            return len(answer.json()["choices"][0]["token_ids"])

        for number in range(given.rounds + 1):
            tasks = [
                Task(task_id=f"{number}-{place}", main_query=f"Tell story {place} of round {number}.", metadata=metadata)
                for place in range(given.episodes // 2)
            ]
            round_ = Round(step=number + 1, split="train", repeats=2, sampling=make_training_sampling(info))
            engine.requests.clear()
            engine.tokens = 0

            async def play(tasks: list[Task] = tasks, round_: Round = round_) -> int:
                await runner.run(tasks, round_)
                return engine.tokens

            row = {"rollout": await time_run(play, pid)}
            asked = list(engine.requests)
            ways = {"engine": ask_engine, **({"server": ask_server} if url else {})}
            for place, (name, ask) in enumerate(ways.items()):
                sessions = replay(asked, 2 * number + place)
                row[name] = await time_run(lambda s=sessions, a=ask: one_after_the_other(s, given.concurrent, a), pid)
            rows.append(row)
    return rows[1:]


async def time_run(play: Callable[[], Awaitable[int]], pid: int | None) -> Mapping[str, float]:
    """Return the wall and CPU seconds of something that gives tokens."""
    wall, own, theirs = time.perf_counter(), time.process_time(), cpu_s(pid)
    tokens = await play()
    return {
        "tokens": tokens,
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - own,
        "server_cpu_s": cpu_s(pid) - theirs,
    }


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["local", "vllm"], default="local")
    parser.add_argument("--model", type=Path, help="A model directory; random weights when not given.")
    parser.add_argument("--size", choices=list(SIZES), default="tiny", help="Of the random weights.")
    parser.add_argument("--concurrent", type=int, default=32)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64, help="Most tokens of an answer.")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    os.environ[KEY_VARIABLE] = KEY
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        directory = Path(folder)
        given.model = (given.model or make_model(directory / "model", given.size)).resolve()
        url, pid = None, None
        if given.engine == "vllm":
            url, pid = stack.enter_context(server(plan_run(write_project(directory, given, ())), given, directory))
        plan = plan_run(write_project(directory, given, [url] if url else ()))
        load = os.getloadavg()
        rows = asyncio.run(measure(plan, given, url, pid))
    base = "server" if given.engine == "vllm" else "engine"
    print(f"{'':<10}{'tokens/s':>10}{'episodes/s':>12}{'CPU s':>8}{'server CPU s':>14}{'of ' + base:>12}")
    found = {}
    for name in rows[0]:
        speeds = [row[name]["tokens"] / row[name]["wall_s"] for row in rows]
        bases = [row[base]["tokens"] / row[base]["wall_s"] for row in rows]
        found[name] = {
            "tokens_per_s": statistics.median(speeds),
            "episodes_per_s": statistics.median(given.episodes / row[name]["wall_s"] for row in rows),
            "cpu_s": statistics.median(row[name]["cpu_s"] for row in rows),
            "server_cpu_s": statistics.median(row[name]["server_cpu_s"] for row in rows),
            "ratio": statistics.median(mine / theirs for mine, theirs in zip(speeds, bases, strict=True)),
        }
        figures = found[name]
        print(
            f"{name:<10}{figures['tokens_per_s']:>10.0f}{figures['episodes_per_s']:>12.2f}{figures['cpu_s']:>8.2f}"
            f"{figures['server_cpu_s']:>14.2f}{figures['ratio']:>12.3f}"
        )
    print(json.dumps({"load": load, "load_after": os.getloadavg(), **found}))


if __name__ == "__main__":
    main()
