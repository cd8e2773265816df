"""Plays the LLM, so that the tutorial runs offline. It knows only one form of sentence. In production a real LLM takes its place.

`python stand_in.py COMMAND …` serves an OpenAI-compatible API on loopback for as long as the command runs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from astuner_devkit.scripted_api import make_completion, scripted_api

FACT = re.compile(r"The ([a-z ]+?) of ((?:the|a) [\w ]+?) is ([^.]+)\.")


def answer(body: Mapping[str, Any], number: int) -> Any:
    """Return the questions that a prompt asks for, each about one sentence of its document."""
    prompt = body["messages"][-1]["content"]
    document = prompt.partition("<document-")[2].partition("</document-")[0]
    there = prompt.rpartition("are there already")[2]
    most = int(re.findall(r"Write (\d+) ", prompt)[0])
    form = (
        "A visitor asks: what is the {} of {}? Answer in one line." if "<sample-" in prompt else "What is the {} of {} in Velmar?"
    )
    rows = [
        {"question": form.format(what, of), "answer": value, "evidence": f"The {what} of {of} is {value}."}
        for what, of, value in FACT.findall(document)
        if f"the {what} of {of}" not in there
    ]
    text = json.dumps({"questions": rows[:most]})
    return make_completion(text, prompt_tokens=len(prompt) // 4, completion_tokens=len(text) // 4)


if __name__ == "__main__":
    with scripted_api(answer) as api:
        environment = {**os.environ, **api.environ}
        sys.exit(subprocess.run(sys.argv[1:], env=environment, check=False).returncode)
