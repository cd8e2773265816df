"""Tokens per second of training with verl or Trinity, on a model with random weights in the shape of a known one.

    python benchmarks/gpu/training.py [--backbone verl|trinity] [--shape 0.5b|1.5b|tiny] [--gpus 1] [--engine auto|vllm]

Episodes answer a question of the quickstart with `--tokens` tokens and a reward by chance, so that every step updates. MFU is
verl's own estimate for the update. `tiny` is for trying the script out on a CPU. With one GPU Trinity's explorer and trainer
share it.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from astuner.testing.quickstart_run import QuickstartProject

SHAPES = {
    # Width, inner width, layers, heads, heads of keys and values: Qwen2.5's, with all of its vocabulary.
    "0.5b": (896, 4864, 24, 14, 2),
    "1.5b": (1536, 8960, 28, 12, 2),
    "tiny": (64, 128, 2, 4, 2),
}
VOCABULARY = 151_936
WARM_UP = 2
AGENT = '''
import random
from astuner import Workflow, WorkflowOutput


class Answers(Workflow):
    """Answers once, and is rewarded by chance."""

    async def execute(self, workflow_task, tuner):
        client = tuner.as_raw_openai_sdk_client()
        messages = [{"role": "user", "content": workflow_task.task.main_query}]
        await client.chat.completions.create(model="any", messages=messages)
        return WorkflowOutput(reward=random.Random(workflow_task.episode_id).random())
'''


def make_model(home: Path, shape: str, context: int) -> None:
    """Write a model with random weights over the tokenizer that lies there."""
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(home)
    width, inner, layers, heads, kv_heads = SHAPES[shape]
    config = Qwen2Config(
        vocab_size=len(tokenizer) if shape == "tiny" else VOCABULARY,
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


def main() -> None:
    """Run, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", choices=("verl", "trinity"), default="verl")
    parser.add_argument("--shape", choices=SHAPES, default="0.5b")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--tasks", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=512)
    arguments = parser.parse_args()
    context = arguments.tokens + 512
    with tempfile.TemporaryDirectory() as directory:
        made = QuickstartProject.make(Path(directory))
        shutil.rmtree(made / "launcher_record", ignore_errors=True)
        for file in (made / "model").glob("*.safetensors"):
            file.unlink()
        make_model(made / "model", arguments.shape, context)
        (made / "answers.py").write_text(AGENT, encoding="utf-8")
        project = QuickstartProject(made, Path(directory) / "state")
        settings = {
            "rollout.user_workflow": "./answers.py:Answers",
            "rollout.name": arguments.engine,
            "rollout.num_repeat": arguments.repeats,
            "rollout.max_num_seqs": arguments.tasks * arguments.repeats,
            "rollout.max_env_worker": arguments.tasks * arguments.repeats,
            "rollout.max_model_len": context,
            "rollout.max_response_length_in_one_turn": arguments.tokens,
            "data.train_batch_size": arguments.tasks,
            "data.max_prompt_length": 512,
            "data.max_response_length": arguments.tokens,
            "trainer_common.total_training_steps": arguments.steps + WARM_UP,
            "trainer_common.n_gpus_per_node": arguments.gpus,
            "trainer_common.val_before_train": "false",
            "trainer_common.use_kl_loss": "false",
            "trainer_common.fsdp_config.param_offload": "false",
            "trainer_common.fsdp_config.optimizer_offload": "false",
            "trainer_common.optim.lr": 1e-6,
        }
        chosen = [f"--set={key}={value}" for key, value in settings.items()]
        ended = project.cli("run", "--conf", "tune.yaml", "--backbone", arguments.backbone, *chosen, timeout=3600)
        if ended.returncode:
            sys.exit(ended.stderr)
        rows = project.metrics[WARM_UP:]

    def median(name: str) -> float:
        return statistics.median(row[name] for row in rows)

    step_s, update_s = median("time/step_s"), median("time/update_s")
    sampled, trained = median("tokens/generated") / step_s, median("tokens/trained") / update_s
    mfu = next((name for name in ("verl/mfu", "trinity/perf/mfu/actor") if name in rows[0]), None)
    print(f"{arguments.backbone}, {arguments.shape} on {arguments.gpus}: step {step_s:.1f} s, update {update_s:.1f} s", end="; ")
    print(f"{sampled:.0f} tokens/s sampled over the step, {trained:.0f} trained in the update", end="")
    print(f"; MFU of the update {100 * median(mfu):.1f} %" if mfu else "")


if __name__ == "__main__":
    main()
