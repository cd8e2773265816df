"""Plays the LLM, so that the tutorial runs offline. It looks for words, and one verdict of ten is wrong.

In production a real LLM takes its place. `python stand_in.py COMMAND …` serves an OpenAI-compatible API while the command runs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from astuner_devkit.scripted_api import make_completion, scripted_api

CRITERIA = {
    "The answer names the next step for the visitor.": r"Please",
    "The answer says when something happens or how long it takes.": r"days|o'clock|noon|minutes",
    "The answer says whom to ask when it does not work.": r"call \d|@",
    "The answer gives a reason.": r"because|reason",
    "The answer is friendly.": r"Thank you|nice|Dear|glad",
    "The answer takes up the matter in general first.": r"much to be said|history|Many people|depends",
}
"""The criteria it can propose, and the words that show whether an answer meets them."""
FENCED = re.compile(r"<(question|answer)-[0-9a-f]+>\n(.*?)\n</\1-[0-9a-f]+>", re.DOTALL)


def answer(body: Mapping[str, Any], number: int) -> Any:
    """Propose or rewrite a rubric, sort rubrics into themes, or score an answer by rubrics."""
    prompt = body["messages"][1]["content"]
    if '"verdicts"' in prompt:
        said: dict[str, Any] = {"verdicts": list(scores(prompt))}
    elif '"themes"' in prompt:
        numbers = [int(found) for found in re.findall(r"(?m)^(\d+)\. ", prompt)]
        halves = {"helpful": numbers[::2], "complete": numbers[1::2]}
        themes = [{"name": name, "theme": f"The answer is {name}.", "rubrics": some} for name, some in halves.items() if some]
        said = {"themes": themes}
    else:
        rubric = list(CRITERIA)[digest(prompt) % len(CRITERIA)]
        said = {"rubric": rubric} if '"rubric":' in prompt else {"rubrics": [rubric]}
    text = json.dumps(said)
    return make_completion(text, prompt_tokens=len(prompt) // 4, completion_tokens=len(text) // 4)


def scores(prompt: str) -> Any:
    """Yield a verdict on each rubric. One of ten is inverted, always the same ones."""
    (_, question), (_, shown) = FENCED.findall(prompt)
    for number, rubric in re.findall(r"(?m)^(\d+)\. (.*)$", prompt.split("The question:")[0]):
        words = CRITERIA.get(rubric)
        met = words is not None and re.search(words, shown) is not None
        wrong = digest(f"{rubric} {question} {shown}") % 10 == 0
        yield {"rubric": int(number), "score": float(met != wrong), "reason": f"{words or 'nothing'} looked for"}


def digest(text: str) -> int:
    """Return a number that depends only on a text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest())


if __name__ == "__main__":
    with scripted_api(answer) as api:
        environment = {**os.environ, **api.environ}
        sys.exit(subprocess.run(sys.argv[1:], env=environment, check=False).returncode)
