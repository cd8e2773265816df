"""The quickstart on `local`, whole and with adapters, and on `tinker` with a server of hatchery-core on this machine.

Each seed makes its own tiny model, from which its runs begin. Needs what the environment `tinker` of tox.ini holds. The server
gives adapters an alpha of twice their rank; `local` is run with that and with 32, which the hosted service has.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from algorithms import read_rewards, run

sys.path.insert(0, str(Path(__file__).parents[1] / "plugins" / "astuner-tinker" / "tests"))

from hatchery_server import KEY, serve

RANK = 32
ROWS = {
    "local": {"backbone": "local"},
    f"local, rank {RANK}, alpha 32": {"backbone": "local", "model.lora_rank": RANK, "model.lora_alpha": 32},
    f"local, rank {RANK}, alpha 64": {"backbone": "local", "model.lora_rank": RANK, "model.lora_alpha": 64},
    f"tinker, rank {RANK}": {"backbone": "tinker", "model.lora_rank": RANK},
}


def count_tokens(directory: Path) -> int:
    """Return how many tokens were generated in training."""
    rows = map(json.loads, (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return round(sum(row.get("tokens/generated", 0) for row in rows if row["kind"] == "train"))


def main() -> None:
    """Print a row for each backbone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--only", nargs="*", choices=ROWS, default=list(ROWS))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        os.environ |= {"TINKER_API_KEY": KEY, "XDG_CACHE_HOME": str(Path(made) / "cache")}
        homes = [Path(made) / str(seed) for seed in range(chosen.seeds)]
        for seed, home in enumerate(homes):
            home.mkdir()
            run(["quickstart", "agent", "--no-run", "--seed", str(seed)], home)
        seeds = " | ".join(f"seed {seed}" for seed in range(chosen.seeds))
        print(f"| | {seeds} | CPU s | of these the server | tokens generated |\n|---|{'---|' * chosen.seeds}---|---|---|")
        for number, name in enumerate(chosen.only):
            rewards, spent, served, tokens = [], 0.0, 0.0, 0
            for seed, home in enumerate(homes):
                agent, settings = home / "agent", {"seed": seed, "trainer_common.total_training_steps": chosen.steps}
                settings |= {"experiment_name": f"row-{number}", **ROWS[name]}
                given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
                command = ["run", "--conf", "tune.yaml", *given]
                if settings["backbone"] == "tinker":
                    with serve(agent / "model", home / "server") as server:
                        began = server.cpu_s
                        spent += run([*command, "--set", f"tinker.base_url={server.url}"], agent)
                        served += server.cpu_s - began
                else:
                    spent += run(command, agent)
                (directory,) = (agent / "launcher_record").glob(f"row-{number}*")
                before, *_, after = read_rewards(directory)
                rewards.append(f"{before:.2f} → {after:.2f}")
                tokens += count_tokens(directory)
            means = [f"{value / chosen.seeds:.0f}" for value in (spent + served, served, tokens)]
            print(f"| {name} | {' | '.join([*rewards, *means])} |", flush=True)


if __name__ == "__main__":
    main()
