"""How much variety repeating a word needs: tiny models are shown demonstrations with ever more different words.

    python benchmarks/repeats.py --words 20 100 300 1000

Each demonstration asks `Say cherry, please.` and answers `The word is cherry.`; a tenth of them is held out, with words that no
trained demonstration has. Printed are the loss and the token accuracy of trained and held-out demonstrations after the default
training of `astuner warm-start --tiny`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

LETTERS = ("bdfgklmnprstvz", "aeiou")
CONF = """
astuner:
  experiment_name: repeats
  backbone: local
  model: {path: ./model}
  task_reader: {type: dataset_file, dataset_file: {training: {file_path: tasks.jsonl}}}
  task_judge: {judge_type: customized_protocol, judge_protocol: "./judge.py:Never"}
  rollout: {user_workflow: "./judge.py:Nothing", max_model_len: 64}
  data: {max_prompt_length: 32, max_response_length: 32}
"""
PARTS = """
from astuner import Workflow, WorkflowOutput


class Never:
    def compute_reward(self, workflow_task, workflow_output):
        return 0.0, False


class Nothing(Workflow):
    async def execute(self, workflow_task, tuner):
        return WorkflowOutput()
"""
LINE = re.compile(r"^(loss|token accuracy), \d+ (trained|held out) +\S+ +(\S+)$", re.MULTILINE)


def main() -> None:
    """Print a row for each number of words."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, nargs="+", default=[20, 100, 300, 1000])
    columns = (("loss", "trained"), ("loss", "held out"), ("token accuracy", "held out"))
    print("words", *(f"{f'{part} {what}':>24}" for what, part in columns))
    for count in parser.parse_args().words:
        found = train(count)
        print(f"{count:5}", *(f"{found[column]:>24}" for column in columns), flush=True)


def train(count: int) -> dict[tuple[str, str], str]:
    """Return what a warm start on so many demonstrations reports."""
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home)
        (directory / "tune.yaml").write_text(CONF)
        (directory / "judge.py").write_text(PARTS)
        (directory / "tasks.jsonl").write_text('{"question": "Say cherry, please."}\n')
        (directory / "demos.jsonl").write_text("".join(f"{json.dumps(demonstrate(word))}\n" for word in make_words(count)))
        command = ["warm-start", "--conf", "tune.yaml", "--demos", "demos.jsonl", "--tiny", "--out", "model"]
        run = subprocess.run(
            [sys.executable, "-m", "astuner", *command], cwd=directory, capture_output=True, text=True, check=False
        )
        if run.returncode:
            sys.exit(run.stderr)
        return {(what, part): value for what, part, value in LINE.findall(run.stdout)}


def demonstrate(word: str) -> dict[str, object]:
    """Return a demonstration that repeats a word."""
    return {
        "messages": [
            {"role": "user", "content": f"Say {word}, please."},
            {"role": "assistant", "content": f"The word is {word}."},
        ]
    }


def make_words(count: int) -> list[str]:
    """Return different words of six letters, the same ones each time."""
    random, words = Random(0), dict[str, None]()
    while len(words) < count:
        words["".join(random.choice(LETTERS[place % 2]) for place in range(6))] = None
    return list(words)


if __name__ == "__main__":
    main()
