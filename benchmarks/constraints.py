"""What a required tool call does to training: sampled freely, enforced, or enforced and trained.

Plays the quickstart with an agent whose first call has `tool_choice: required`, on the engine `local` with a mask over its
logits. Validation (sampled, held-out numbers) is free and enforced, whatever training was.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import regex
import torch
from attrs import define, evolve

CALL = regex.compile(r'<tool_call>\n\{"name": "calculator", "arguments": \{"expression": "[ -!#-\[\]-~]{1,12}"\}\}\n</tool_call>')
"""The form of the model's tool calls, with any printable expression."""

WAYS: Mapping[str, tuple[str, ...]] = {
    "ignore": ("rollout.constraints=ignore",),
    "enforce": ("rollout.constraints=enforce",),
    "enforce, trained": ("rollout.constraints=enforce",),
    "enforce, trained, weighted": ("rollout.constraints=enforce", "trainer_common.algorithm.rollout_is_threshold=2.0"),
}
"""Ways to train, and their options. Weighted: each token by its probability under the free policy over that under the mask."""

SAMPLED = ("rollout.val_kwargs.do_sample=true", "rollout.val_kwargs.temperature=1.0", "trainer_common.val_pass_n=4")
"""Options of the validation: greedy, the model calls the tool rightly before it is tuned."""


@define(eq=False)
class Masks:
    """Which tokens may follow a text."""

    texts: Sequence[str]
    """The text of each id."""
    end: int

    @cache  # noqa: B019 - one object per process
    def allow(self, text: str) -> torch.Tensor:
        """Return a mask over the vocabulary."""
        allowed = [bool(piece) and CALL.fullmatch(text + piece, partial=True) is not None for piece in self.texts]
        allowed[self.end] = CALL.fullmatch(text) is not None
        return torch.tensor(allowed)


def constrain_local_engine(model: Path, *, trained: bool) -> None:
    """Let the engine `local` of this process enforce tool calls, and train such answers if wanted."""
    from transformers import AutoTokenizer

    from astuner.model.gateway.recording.call_policy import CallPolicy
    from astuner_local.engine.batch import BatchEngine
    from astuner_local.engine.plugin import LocalEngine
    from astuner_local.engine.sampler import DrawnTokens, Sampler
    from astuner_local.engine.serving import Serving
    from astuner_local.engine.slots import Generation

    tokenizer = AutoTokenizer.from_pretrained(model)
    masks = Masks([tokenizer.decode([number]) for number in range(len(tokenizer))], tokenizer.eos_token_id)
    held: set[str] = set()
    make_sampler, generate = BatchEngine._get_sampler, Serving.generate
    capabilities = LocalEngine.capabilities.fget

    @define(eq=False)
    class MaskedSampler:
        sampler: Sampler
        generations: Sequence[Generation]

        def draw(self, logits: torch.Tensor, indices: Sequence[int]) -> DrawnTokens:
            logits = logits.clone()
            for row, generation in enumerate(self.generations):
                if generation.request.id in held:
                    allowed = masks.allow(tokenizer.decode(generation.ids))
                    logits[row, : len(allowed)].masked_fill_(~allowed, -torch.inf)
            return self.sampler.draw(logits, indices)

    async def generate_held(self: Any, request: Any) -> AsyncIterator[Any]:
        if request.constraint is not None:
            held.add(request.id)
        async for chunk in generate(self, evolve(request, constraint=None)):
            yield chunk

    changes: Mapping[tuple[type, str], Any] = {
        (Serving, "generate"): generate_held,
        (BatchEngine, "_get_sampler"): lambda self, rows: MaskedSampler(make_sampler(self, rows), rows),
        (LocalEngine, "capabilities"): property(lambda self: evolve(capabilities(self), constrained=True)),
    }
    for (owner, name), value in changes.items():
        setattr(owner, name, value)
    if trained:
        find = CallPolicy.find_untrained_reason
        CallPolicy.find_untrained_reason = lambda self, constraint, trained: find(self, None, trained)  # type: ignore[method-assign]


def play(project: Path, way: str, seed: int, steps: int) -> None:
    """Train one way in this process, then validate freely and enforced."""
    from astuner.cli import main as astuner

    constrain_local_engine(project / "model", trained="trained" in way)
    common = ["--conf", str(project / "tune.yaml"), "--set", f"astuner.seed={seed}"]

    def call(command: str, *settings: str) -> None:
        try:
            astuner([command, *common, *(part for each in settings for part in ("--set", f"astuner.{each}"))])
        except SystemExit as ended:
            if ended.code:
                raise

    call("run", f"trainer_common.total_training_steps={steps}", "trainer_common.val_before_train=false", *WAYS[way])
    checkpoint = max((project / "launcher_record/calculator/checkpoints").iterdir(), key=lambda path: path.stat().st_mtime)
    for constraints in ("ignore", "enforce"):
        call(
            "eval",
            f"model.path={checkpoint}",
            f"experiment_name=val-{constraints}",
            f"rollout.constraints={constraints}",
            *SAMPLED,
        )


def read_rewards(project: Path) -> dict[str, float]:
    """Return the mean reward of the last training steps, and of both validations."""
    record = project / "launcher_record"
    rows = [json.loads(line) for line in (record / "calculator/metrics.jsonl").read_text().splitlines()]
    trained = [row["reward/mean"] for row in rows if "reward/mean" in row][-5:]
    found = {"training": statistics.mean(trained)}
    for name in ("ignore", "enforce"):
        rows = [json.loads(line) for line in (record / f"val-{name}.eval/metrics.jsonl").read_text().splitlines()]
        found[name] = next(row["val/reward/mean"] for row in rows if "val/reward/mean" in row)
    return found


def main() -> None:
    """Train every way with every seed, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--play", nargs=2, metavar=("PROJECT", "WAY"), help="Train one way; what this script calls itself with.")
    parser.add_argument("--seed", type=int, default=0, help="The first.")
    given = parser.parse_args()
    if given.play:
        play(Path(given.play[0]), given.play[1], given.seed, given.steps)
        return
    rows: list[dict[str, Any]] = []
    print(f"{'way':<28}{'seed':>5}{'training':>10}{'val free':>10}{'val enforced':>14}", flush=True)
    with tempfile.TemporaryDirectory() as home:
        for seed in range(given.seed, given.seed + given.seeds):
            made = Path(home) / f"seed-{seed}"
            run = [sys.executable, "-m", "astuner", "quickstart", str(made), "--no-run", "--seed", str(seed)]
            subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
            agent = made / "agent.py"
            wanted = 'tools=[CALCULATOR], tool_choice="auto" if tool_calls else "required"'
            agent.write_text(agent.read_text().replace("tools=[CALCULATOR]", wanted))
            for number, way in enumerate(WAYS):
                project = Path(home) / f"{seed}-{number}"
                shutil.copytree(made, project)
                command = [
                    sys.executable,
                    __file__,
                    "--play",
                    str(project),
                    way,
                    "--seed",
                    str(seed),
                    "--steps",
                    str(given.steps),
                ]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=project)
                rows.append({"way": way, "seed": seed, **read_rewards(project)})
                row = rows[-1]
                print(f"{way:<28}{seed:>5}{row['training']:>10.3f}{row['ignore']:>10.3f}{row['enforce']:>14.3f}", flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
