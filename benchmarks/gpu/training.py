"""Agents of several turns, trained on models with random weights in the shape of known ones: one table per machine.

    python benchmarks/gpu/training.py [--backbone verl|trinity|local] [--shape 0.5b 1.5b] [--turns 4] [--gpus 1]

Episodes answer `--turns` times with `--tokens` tokens, and are rewarded by chance, so that every step updates. `driver` is the
CPU time of the process that plays the episodes over the wall time of a step: at 100 % it is the limit. With Trinity that is one
runner, with `local` the trainer as well. MFU is the engine's own estimate for the update. `mismatch` is how far
the mean of exp |log-ratio| between engine and trainer is above 1. `--shape tiny` is for trying the script out on a CPU.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from quickstart_project import QuickstartProject

SHAPES = {
    # Width, inner width, layers, heads, heads of keys and values: Qwen2.5's, with all of its vocabulary.
    "0.5b": (896, 4864, 24, 14, 2),
    "1.5b": (1536, 8960, 28, 12, 2),
    "tiny": (64, 128, 2, 4, 2),
}
VOCABULARY = 151_936
TINY_VOCABULARY = 640
WARM_UP = 2
PROMPT = 512
QUESTION = 64
"""Tokens of a question between two turns, with its template, at most."""
MFU = ("verl/mfu", "trinity/perf/mfu/actor")
MISMATCH = "mismatch/exp_abs_mean"
HEADS = ("shape", "GPUs", "step s", "update s", "calls/s", "tokens/s sampled", "tokens/s trained", "driver", "MFU", "mismatch")
AGENT = """
import random
import time

from astuner import Workflow, WorkflowOutput


class Answers(Workflow):
    \"\"\"Answers several times, and is rewarded by chance.\"\"\"

    async def execute(self, workflow_task, tuner):
        client = tuner.as_raw_openai_sdk_client()
        messages = [{{"role": "user", "content": workflow_task.task.main_query}}]
        for turn in range({turns}):
            response = await client.chat.completions.create(model="any", messages=messages)
            messages.append({{"role": "assistant", "content": response.choices[0].message.content or ""}})
            messages.append({{"role": "user", "content": f"Check turn {{turn}}."}})
        reward = random.Random(workflow_task.episode_id).random()
        return WorkflowOutput(reward=reward, log_metrics={{"worker_cpu_s": time.process_time()}})
"""


def make_project(home: Path) -> None:
    """Write the quickstart's project with its tokenizer, but without its model, which takes a minute."""
    from astuner_local.quickstart.template import write_project
    from astuner_local.tiny.tokenizer import train_tokenizer

    (home / "model").mkdir(parents=True)
    write_project(home, seed=0)
    lines = (home / "tasks" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    train_tokenizer(json.loads(line)["main_query"] for line in lines).save_pretrained(home / "model")


def fill_vocabulary(home: Path, size: int) -> None:
    """Give every id of a model a token: engines forbid ids that the tokenizer lacks, and the trainer would not know."""
    file = home / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    taken = {*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"])}
    tokenizer["model"]["vocab"] |= {f"word{number}": number for number in range(size) if number not in taken}
    file.write_text(json.dumps(tokenizer), encoding="utf-8")
    file = home / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    # Its name in every release of transformers.
    file.write_text(json.dumps(settings | {"tokenizer_class": "PreTrainedTokenizerFast"}), encoding="utf-8")


def make_model(home: Path, shape: str, context: int) -> None:
    """Write a model with random weights over the tokenizer that lies there."""
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    vocabulary = TINY_VOCABULARY if shape == "tiny" else VOCABULARY
    fill_vocabulary(home, vocabulary)
    tokenizer = AutoTokenizer.from_pretrained(home)
    if len(tokenizer) != vocabulary:
        raise RuntimeError(f"the tokenizer has {len(tokenizer)} tokens, and the model {vocabulary}")
    width, inner, layers, heads, kv_heads = SHAPES[shape]
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config)
    (model if shape == "tiny" else model.to(torch.bfloat16)).save_pretrained(home)


def measure(arguments: argparse.Namespace, shape: str) -> tuple[str, ...]:
    """Run, and return the medians as a row of the table."""
    response = arguments.turns * (arguments.tokens + QUESTION)
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "project"
        make_project(home)
        make_model(home / "model", shape, PROMPT + response)
        (home / "answers.py").write_text(AGENT.format(turns=arguments.turns), encoding="utf-8")
        project = QuickstartProject(home, Path(directory) / "state")
        settings = {
            "rollout.user_workflow": "./answers.py:Answers",
            "rollout.name": arguments.engine,
            "rollout.num_repeat": arguments.repeats,
            "rollout.max_num_seqs": arguments.tasks * arguments.repeats,
            "rollout.max_env_worker": arguments.tasks * arguments.repeats,
            "rollout.max_model_len": PROMPT + response,
            "rollout.max_response_length_in_one_turn": arguments.tokens,
            "data.train_batch_size": arguments.tasks,
            "data.max_prompt_length": PROMPT,
            "data.max_response_length": response,
            "trainer_common.total_training_steps": arguments.steps + WARM_UP,
            "trainer_common.val_before_train": "false",
            "trainer_common.use_kl_loss": "false",
            "trainer_common.optim.lr": 1e-6,
        }
        if arguments.backbone != "local":
            settings |= {
                "trainer_common.n_gpus_per_node": arguments.gpus,
                "trainer_common.fsdp_config.param_offload": "false",
                "trainer_common.fsdp_config.optimizer_offload": "false",
            }
        chosen = [f"--set={key}={value}" for key, value in settings.items()]
        ended = project.cli("run", "--conf", "tune.yaml", "--backbone", arguments.backbone, *chosen, timeout=3600)
        if ended.returncode:
            sys.exit(ended.stderr)
        return summarize(shape, arguments.gpus, project.metrics)


def summarize(shape: str, gpus: int, metrics: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a row of the table from the metrics of all steps."""
    rows = metrics[WARM_UP:]

    def median(name: str) -> float | None:
        found = [row[name] for row in rows if row.get(name) is not None]
        return statistics.median(found) if found else None

    step_s, update_s = median("time/step_s") or 0.0, median("time/update_s") or 0.0
    busy = [row["workflow/worker_cpu_s"] for row in metrics[WARM_UP - 1 :]]
    driver = statistics.median(after - before for before, after in itertools.pairwise(busy))
    mfu = next((found for name in MFU if (found := median(name)) is not None), None)
    mismatch = median(MISMATCH)
    return (
        shape,
        str(gpus),
        f"{step_s:.2f}",
        f"{update_s:.2f}",
        f"{(median('signal/calls') or 0.0) / step_s:.0f}",
        f"{(median('tokens/generated') or 0.0) / step_s:.0f}",
        f"{(median('tokens/trained') or 0.0) / update_s:.0f}" if update_s else "-",
        f"{100 * driver / step_s:.0f} %",
        "-" if mfu is None else f"{100 * mfu:.1f} %",
        "-" if mismatch is None else f"{mismatch - 1:.1e}",
    )


def describe_machine() -> str:
    """Return the processor or the GPUs, and what slows training down on them."""
    import torch

    if not torch.cuda.is_available():
        return f"{platform.machine()}, no GPU"
    found = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}"
    if find_spec("flash_attn") is None:
        found += ", WITHOUT flash-attn: verl and Trinity compute one row per pass (pip install flash-attn --no-build-isolation)"
    return found


def main() -> None:
    """Measure each shape, and print the machine's table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", choices=("verl", "trinity", "local"), default="verl")
    parser.add_argument("--shape", choices=SHAPES, nargs="+", default=["0.5b"])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--tasks", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--turns", type=int, default=4)
    arguments = parser.parse_args()
    print(f"{arguments.backbone} on {describe_machine()}; {arguments.turns} turns of {arguments.tokens} tokens\n", flush=True)
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    for shape in arguments.shape:
        print(f"| {' | '.join(measure(arguments, shape))} |", flush=True)


if __name__ == "__main__":
    main()
