"""The token tree: its time against the length of a conversation, the tokens that are trained, and random call sequences."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field
from traffic import ANSWER, TOOLS, first_messages, results
from words import help_tokenizer

from astuner.contract.protocols import EpisodeIdentity
from astuner.contract.schema import Call
from astuner.contract.token_streams import prompt_length, stream_length
from astuner.episodes.builtin.trackers.timeline import TimelineTracker
from astuner.model.gateway.recording.messages import MessageReader
from astuner.model.gateway.tree.token_tree import TokenTree
from astuner.model.gateway.wire_apis.chat_completions import chat_request
from astuner.model.rendering import TemplateRenderer

REPOSITORY = Path(__file__).parents[1]
TEST = REPOSITORY / "astuner-core/tests/gateway/recording/test_recording_properties.py"
AT_ONCE = 5000
"""Sequences that one process of the test plays."""

LONG_TURNS = 200
LONG = " It also found: " + " ".join(f"row {number} is empty," for number in range(37))
"""What makes the last prompt of so many turns one of about 64,000 tokens."""


@define(eq=False)
class TimedRenderer:
    """Knows how long the chat template took."""

    renderer: TemplateRenderer
    render_s: float = 0.0
    vocabulary: int = field(init=False)

    def render(self, *arguments: Any, **options: Any) -> str:
        """Render, and count the CPU seconds."""
        began = time.process_time()
        text = self.renderer.render(*arguments, **options)
        self.render_s += time.process_time() - began
        return text

    def __getattr__(self, name: str) -> Any:
        return getattr(self.renderer, name)


def record(renderer: TemplateRenderer, turns: int, name: str = "a", found: str = "") -> tuple[list[Call], dict[str, float]]:
    """Record one conversation; return its calls and the CPU seconds of the template, the tree and the tracker.

    Beside the template's are those of rendering each request from scratch. One with a name of its own finds none of its texts in
    the renderer's memory. `found` is added to what a tool returns.
    """
    timed = TimedRenderer(renderer)
    tree = TokenTree(timed)  # type: ignore[arg-type] # it has all that the renderer has
    output = np.asarray([*renderer.encode(ANSWER), renderer.tokenizer.eos_token_id], np.int32)
    function = {"name": "search", "arguments": '{"a": 17, "b": 4}'}
    reply = {"role": "assistant", "content": ANSWER.partition("<tool_call>")[0]}
    reply["tool_calls"] = [{"id": "call00001", "type": "function", "function": function}]  # type: ignore[assignment]
    messages = first_messages(name)
    said = MessageReader()
    calls: list[Call] = []
    spent = whole = 0.0
    for turn in range(turns):
        # Read from JSON each time, as a request is: no object of an earlier one is seen again.
        request = chat_request(json.loads(json.dumps({"messages": messages, "tools": TOOLS})), said)
        began = time.process_time()
        placement = tree.place(request, "agent", renderer.encode)
        tree.add_prompt(turn, placement)
        call = Call(
            index=turn,
            agent="agent",
            target_tag="agent",
            parent=placement.parent,
            kept=placement.kept,
            prompt_ids=placement.prompt_ids,
            output_ids=output,
            logprobs=np.full(len(output), -0.5, np.float32),
            finish_reason="stop",
            reply=reply,
        )
        tree.add_reply(placement, call, len(output), int(output[-1]))
        spent += time.process_time() - began
        calls.append(call)
        began = time.process_time()
        assert renderer.render(request.messages, TOOLS, generate=True, kwargs={}) == placement.text
        whole += time.process_time() - began
        answer, *results_found = results(name, turn, reply)
        messages += [answer, *({**one, "content": one["content"] + found} for one in results_found)]
    began = time.process_time()
    tracked = TimelineTracker().samples(calls, EpisodeIdentity(episode_id="e", task_id="t", repeat=0))
    tracking = time.process_time() - began
    assert len(tracked.samples) == 1
    return calls, {"template": timed.render_s, "whole": whole, "tree": spent - timed.render_s, "tracker": tracking}


def lengths(renderer: TemplateRenderer, turns: Sequence[int], rounds: int, found: str = "") -> list[dict[str, float]]:
    """Return the CPU milliseconds of conversations of several lengths, and the ratio of each to the one before."""
    taken: dict[int, list[Mapping[str, float]]] = {count: [] for count in turns}
    for number in range(rounds + 1):
        for count in turns:
            taken[count].append(record(renderer, count, f"{number}-{count}", found)[1])
    rows: list[dict[str, float]] = []
    for count in turns:
        row: dict[str, float] = {"turns": count}
        for part in ("template", "whole", "tree", "tracker"):
            row[f"{part}_ms"] = 1e3 * statistics.median(one[part] for one in taken[count][1:])
        own = [one["tree"] + one["tracker"] for one in taken[count][1:]]
        before = [one["tree"] + one["tracker"] for one in taken[turns[len(rows) - 1]][1:]] if rows else own
        row["ratio"] = statistics.median(mine / theirs for mine, theirs in zip(own, before, strict=True))
        rows.append(row)
    return rows


def trained_tokens(renderer: TemplateRenderer, turns: int) -> dict[str, float]:
    """Return the tokens that a trainer processes: in the rows of the tree, and in a row for each call."""
    calls, _ = record(renderer, turns)
    tracked = TimelineTracker().samples(calls, EpisodeIdentity(episode_id="e", task_id="t", repeat=0))
    rows = sum(len(sample.ids) for sample in tracked.samples)
    naive = sum(stream_length(call) for call in calls)
    sampled = sum(len(call.output_ids) for call in calls)
    assert sum(sample.trained for sample in tracked.samples) == sampled
    last = calls[-1]
    return {
        "turns": turns,
        "prompt": prompt_length(last),
        "sampled": sampled,
        "tree": rows,
        "naive": naive,
        "ratio": naive / rows,
    }


def sequences(count: int, processes: int, seed: int) -> dict[str, float]:
    """Play random call sequences through the widest test of the recording, in many processes; say what fails."""
    began, shares = time.perf_counter(), [min(AT_ONCE, count - start) for start in range(0, count, AT_ONCE)]

    def share(numbered: tuple[int, int]) -> int:
        number, size = numbered
        command = [sys.executable, "-m", "pytest", "-q", "-c", str(REPOSITORY / "pytest.ini"), "-p", "no:cacheprovider"]
        command += [str(TEST), "-k", "no_sequence_of_calls", f"--hypothesis-seed={seed + number}"]
        environment = {**os.environ, "ASTUNER_SEQUENCES": str(size), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            print(f"seed {seed + number}: {done.stdout[-3000:]}")
        print(f"{number + 1} of {len(shares)}: {'failed' if done.returncode else 'passed'}", flush=True)
        return size if done.returncode == 0 else 0

    with ThreadPoolExecutor(processes) as pool:
        passed = sum(pool.map(share, enumerate(shares)))
    return {"sequences": count, "in_passed_shares": passed, "seconds": time.perf_counter() - began}


def main() -> None:
    """Measure, or play sequences when a number of them is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, nargs="+", default=[50, 100, 200, 400], help="Each twice the one before.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sequences", type=int, help="Play N random call sequences instead.")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.sequences:
        found = sequences(given.sequences, given.processes, given.seed)
        print(json.dumps(found))
        sys.exit(found["in_passed_shares"] != found["sequences"])
    renderer = TemplateRenderer(help_tokenizer())
    load = os.getloadavg()
    rows = lengths(renderer, given.turns, given.rounds)
    long = lengths(renderer, [LONG_TURNS], given.rounds, found=LONG)
    print(f"{'turns':>6}{'template ms':>13}{'a turn':>8}{'from scratch ms':>17}{'tree ms':>9}{'tracker ms':>12}{'ratio':>7}")
    for row in (*rows, *long):
        turns, template = row["turns"], row["template_ms"]
        print(f"{turns:>6.0f}{template:>13.1f}{template / turns:>8.2f}{row['whole_ms']:>17.1f}", end="")
        print(f"{row['tree_ms']:>9.1f}{row['tracker_ms']:>12.2f}{row['ratio']:>7.2f}")
    calls, _ = record(renderer, LONG_TURNS, found=LONG)
    print(f"the last row is an agent whose last prompt has {prompt_length(calls[-1]):,} tokens")
    trained = trained_tokens(renderer, 10)
    said = f"{trained['tree']:.0f} tokens in the rows of the tree, {trained['naive']:.0f} in a row per call"
    print(f"10 turns: {said}, {trained['ratio']:.1f} times as many")
    print(json.dumps({"load": load, "lengths": rows, "long": long, "trained": trained}))


if __name__ == "__main__":
    main()
