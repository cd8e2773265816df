"""The tutorials on a pretrained model of 0.1 billion parameters: three seeds each, a coin as reward, and other settings.

`python benchmarks/realmodel.py HOME --model DIRECTORY` plays in HOME what the file of results lacks, one run at a time, and
adds a line for each; `realmodel.log` says how it went. `docs/write_realmodel.py` makes the pages' tables and curves of that
file. CPU seconds are those of the run's own process; one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

REPOSITORY = Path(__file__).parents[1]
RESULTS = Path(__file__).with_suffix(".jsonl")
LOG = Path(__file__).with_suffix(".log")
CACHED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "astuner" / "models" / "smollm2-135m"
COIN = {"task_judge.judge_protocol": "./judge.py:Coin"}
OTHER_SIDE = {"task_judge.judge_protocol": "./judge.py:OtherSide"}
LORA = {"model.lora_alpha": 32}
WARM_START = ("--demos", "demos.jsonl", "--epochs", "3", "--lr", "5e-5")
"""As the page of `guess_number` has it; a test compares them."""

Row = dict[str, Any]


@frozen(kw_only=True)
class Play:
    """One run of a tutorial."""

    tutorial: str
    arm: str = "reward"
    """`reward` as the tutorial has it, `coin`, or the settings that differ."""
    seed: int = 0
    settings: Mapping[str, Any] = field(factory=dict)
    checked: bool = True
    """Whether the tuned model is looked at too: greedy answers, other prompts, the export reloaded."""

    @property
    def name(self) -> str:
        """Of its row and of its directory."""
        return f"{self.tutorial}-{self.arm}-{self.seed}"


def list_plays() -> Iterator[Play]:
    """Yield all of them, what the pages' first tables need before the rest."""
    for tutorial, seeds in (("shop", (0, 1, 2)), ("one_word", (0, 1, 2)), ("guess_number", (0,))):
        for seed in seeds:
            yield Play(tutorial=tutorial, seed=seed)
        yield Play(tutorial=tutorial, arm="coin", settings=COIN)
    yield Play(tutorial="guess_number", seed=1)
    yield Play(tutorial="guess_number", seed=2)
    yield from list_coins()
    yield from list_sizes()


def list_coins() -> Iterator[Play]:
    """Yield what tells where noise takes the one-word task: other tosses, the other side of the coin, other losses."""
    for seed in (1, 2):
        yield Play(tutorial="one_word", arm="coin", seed=seed, settings=COIN, checked=False)
    for seed in (0, 1, 2):
        yield Play(tutorial="one_word", arm="other side", seed=seed, settings=OTHER_SIDE, checked=False)
    variants: dict[str, Row] = {
        "coin, kl_loss_coef 0.1": {"trainer_common.kl_loss_coef": 0.1},
        "coin, lr 5e-6": {"trainer_common.optim.lr": 5e-6},
        "coin, seq-mean-token-mean": {"trainer_common.loss_agg_mode": "seq-mean-token-mean"},
        "coin, seq-mean-token-sum-norm": {"trainer_common.loss_agg_mode": "seq-mean-token-sum-norm"},
    }
    for arm, settings in variants.items():
        yield Play(tutorial="one_word", arm=arm, settings={**COIN, **settings}, checked=False)


def list_sizes() -> Iterator[Play]:
    """Yield the shop with other settings, one at a time."""
    arms: dict[str, Row] = {
        "lr 5e-6": {"trainer_common.optim.lr": 5e-6},
        "lr 5e-5": {"trainer_common.optim.lr": 5e-5},
        "LoRA rank 16, lr 2e-4": {"model.lora_rank": 16, **LORA, "trainer_common.optim.lr": 2e-4},
        "LoRA rank 16, lr 1e-3": {"model.lora_rank": 16, **LORA, "trainer_common.optim.lr": 1e-3},
        "temperature 1.0": {"rollout.temperature": 1.0},
        "num_repeat 4 of 12 tasks": {"rollout.num_repeat": 4, "data.train_batch_size": 12},
        "num_repeat 16 of 3 tasks": {"rollout.num_repeat": 16, "data.train_batch_size": 3},
        "kl_loss_coef 0.1": {"trainer_common.use_kl_loss": True, "trainer_common.kl_loss_coef": 0.1},
    }
    for arm, settings in arms.items():
        yield Play(tutorial="shop", arm=arm, settings=settings, checked=False)


def run_astuner(arguments: Sequence[str], home: Path, log: Path) -> Row:
    """Run a command to its end; return its CPU and wall seconds and its largest resident size in GB.

    Raises:
        RuntimeError: the command failed; its last lines are shown.

    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    began = time.monotonic()
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "astuner", *arguments], cwd=home, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"astuner {' '.join(arguments)}\n" + log.read_text(encoding="utf-8", errors="replace")[-2000:])
    return {
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "wall_s": round(time.monotonic() - began, 1),
        "rss_gb": round(usage.ru_maxrss / 1024**2, 2),
    }


def play(chosen: Play, home: Path, model: Path) -> Row:
    """Follow a tutorial in `home`; return the row of results."""
    folder = home / chosen.name.replace(" ", "_").replace(",", "")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(REPOSITORY / "tutorial" / chosen.tutorial, folder, ignore=shutil.ignore_patterns("launcher_record", "model"))
    log = folder / "log.txt"
    begin, warm_start = find_first_model(chosen, home, model)
    settings = {"model.path": begin, "seed": chosen.seed, "experiment_name": "run", **chosen.settings}
    options = [f"--set={key}={value}" for key, value in settings.items()]
    cost = run_astuner(["run", "--conf", "tune.yaml", *options], folder, log)
    run = folder / "launcher_record" / "run"
    row = {
        "play": chosen.name,
        "tutorial": chosen.tutorial,
        "arm": chosen.arm,
        "seed": chosen.seed,
        "settings": dict(chosen.settings),
        **cost,
        "warm_start": warm_start,
        **read_curves(run),
    }
    if chosen.checked:
        row.update(check(folder, begin, options, log))
    shutil.rmtree(run / "checkpoints", ignore_errors=True)
    return row


def find_first_model(chosen: Play, home: Path, model: Path) -> tuple[Path, Row | None]:
    """Return the model that a run begins with, and what its warm start took, if it has one, which is made only once."""
    if not (REPOSITORY / "tutorial" / chosen.tutorial / "demos.jsonl").exists():
        return model, None
    folder = home / f"{chosen.tutorial}-warm-start"
    cost = folder / "cost.json"
    if not cost.exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(
            REPOSITORY / "tutorial" / chosen.tutorial, folder, ignore=shutil.ignore_patterns("launcher_record", "model")
        )
        arguments = ["warm-start", "--conf", "tune.yaml", *WARM_START, "--out", "model", f"--set=model.path={model}"]
        spent = run_astuner(arguments, folder, folder / "log.txt")
        evals = {kind: next((folder / "launcher_record").glob(f"*-{kind}.eval")) for kind in ("before", "after")}
        cost.write_text(json.dumps({**spent, **{kind: read_curves(run)["validation"][0] for kind, run in evals.items()}}))
    return folder / "model", json.loads(cost.read_text())


def read_curves(run: Path) -> Row:
    """Return what each validation and each step of a run has measured."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return {
        "validation": [read_metrics(row, "val/") for row in rows if row["kind"] == "validation"],
        "steps": [read_metrics(row, "") for row in rows if row["kind"] == "train"],
    }


def read_metrics(row: Row, prefix: str) -> Row:
    """Return the metrics of a row that the pages show, under short names."""
    names = {
        "success/rate": "success",
        "success/count": "episodes",
        "reward/mean": "reward",
        "kl/mean": "kl",
        "entropy/mean": "entropy",
        "tokens/generated": "tokens",
    }
    names |= {f"reward/{part}": part for part in ("looked", "form", "positive", "listened")}
    found = {short: row[prefix + name] for name, short in names.items() if row.get(prefix + name) is not None}
    return {"step": row["step"], **{key: round(value, 4) for key, value in found.items()}}


def check(folder: Path, begin: Path, options: Sequence[str], log: Path) -> Row:
    """Export the tuned model; return its greedy validation, those of the first model, and what else changed."""
    run_astuner(["export", "launcher_record/run", "--out", "tuned"], folder, log)
    greedy = ["--set=rollout.val_kwargs.do_sample=false", "--set=model.dtype=float32"]
    found = {}
    for when, path in (("before", begin), ("after", folder / "tuned")):
        known = folder.parent / f"{folder.name.split('-')[0]}-greedy.json"
        if when == "before" and known.exists():
            found["before"] = json.loads(known.read_text())
            continue
        arguments = [
            "eval",
            "--conf",
            "tune.yaml",
            *options,
            *greedy,
            f"--set=model.path={path}",
            f"--set=experiment_name={when}",
        ]
        run_astuner(arguments, folder, log)
        found[when] = read_curves(folder / "launcher_record" / f"{when}.eval")["validation"][0]
        if when == "before":
            known.write_text(json.dumps(found["before"]))
    script = Path(__file__).with_name("model_changes.py")
    command = [sys.executable, str(script), str(begin), str(folder / "tuned"), str(folder / "launcher_record" / "after.eval")]
    changes = subprocess.run(command, capture_output=True, check=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return {"greedy": found, "changes": json.loads(changes.stdout)}


def say(line: str) -> None:
    """Print a line, and add it to the log."""
    print(line, flush=True)
    with LOG.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def main() -> None:
    """Play what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path, help="where the runs are played and kept")
    parser.add_argument("--model", type=Path, default=CACHED, help="what `astuner model fetch smollm2-135m` has made")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--only", default="", metavar="TEXT", help="only runs whose name holds this text")
    arguments = parser.parse_args()
    arguments.home.mkdir(parents=True, exist_ok=True)
    home, model = arguments.home.resolve(), arguments.model.resolve()
    for chosen in list_plays():
        lines = arguments.results.read_text(encoding="utf-8").splitlines() if arguments.results.exists() else []
        if arguments.only not in chosen.name or chosen.name in {json.loads(line)["play"] for line in lines}:
            continue
        say(f"{time.strftime('%H:%M:%S')} {chosen.name}")
        try:
            row = play(chosen, home, model)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            say(f"  failed: {error}\n{getattr(error, 'stderr', '')}")
            continue
        with arguments.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        rates = [100 * found["success"] for found in row["validation"]]
        say(f"  success {rates[0]:.1f} → {rates[-1]:.1f} %, {row['cpu_s']:.0f} CPU s, {row['wall_s']:.0f} s")


if __name__ == "__main__":
    main()
