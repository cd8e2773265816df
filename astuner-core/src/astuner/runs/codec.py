"""Episodes as JSON and back, exactly: float32 values survive in nine significant digits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import asdict

from astuner.schema import Call, Episode, Failure, Finding, Sample, Task, Unjudged, Verdict, WeightSpan, WorkflowOutput

Json = dict[str, Any]


def dump_episode(episode: Episode) -> Json:
    """Return the episode as JSON values."""
    return {
        **dump_plain(episode),
        "task": dump_plain(episode.task),
        "output": None if episode.output is None else dump_plain(episode.output),
        "calls": [_dump_call(call) for call in episode.calls],
        "samples": [_dump_sample(sample) for sample in episode.samples],
        "untrained": dict(episode.untrained),
        "failures": [dump_plain(failure) for failure in episode.failures],
        "observations": dict(episode.observations),
        "verdict": dump_verdict(episode.verdict),
        "findings": {name: [dump_plain(finding) for finding in found] for name, found in episode.findings.items()},
    }


def encode_record(record: Json) -> bytes:
    """Return a record as a line of the store."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def encode_episode(episode: Episode) -> bytes:
    """Return the episode as a line of the store."""
    return encode_record({"kind": "episode", "episode": dump_episode(episode)})


def decode_episode(line: bytes) -> Episode:
    """Return the episode that `encode_episode` encoded."""
    return load_episode(json.loads(line)["episode"])


def load_episode(data: Mapping[str, Any]) -> Episode:
    """Return the episode that `dump_episode` wrote."""
    return Episode(
        **{
            **data,
            "task": Task(**data["task"]),
            "output": None if data["output"] is None else WorkflowOutput(**data["output"]),
            "calls": tuple(_load_call(call) for call in data["calls"]),
            "samples": tuple(_load_sample(sample) for sample in data["samples"]),
            "failures": tuple(Failure(**failure) for failure in data["failures"]),
            "verdict": load_verdict(data["verdict"]),
            "findings": {name: tuple(Finding(**one) for one in found) for name, found in data["findings"].items()},
        }
    )


def dump_plain(record: Any) -> Json:
    """Return a flat attrs record as JSON values."""
    return asdict(record, recurse=False)


def dump_verdict(verdict: Verdict | Unjudged | None) -> Json | None:
    """Return a verdict as JSON values; an `Unjudged` differs from a `Verdict` by its `reason`."""
    return None if verdict is None else dump_plain(verdict)


def load_verdict(data: Mapping[str, Any] | None) -> Verdict | Unjudged | None:
    """Return what `dump_verdict` wrote."""
    if data is None:
        return None
    return Unjudged(**data) if "reason" in data else Verdict(**data)


def _dump_call(call: Call) -> Json:
    return {
        **dump_plain(call),
        "prompt_ids": call.prompt_ids.tolist(),
        "output_ids": call.output_ids.tolist(),
        "logprobs": _dump_floats(call.logprobs),
        "weights": [[span.start, span.version] for span in call.weights],
    }


def _load_call(data: Mapping[str, Any]) -> Call:
    return Call(
        **{
            **data,
            "prompt_ids": np.array(data["prompt_ids"], dtype=np.int32),
            "output_ids": np.array(data["output_ids"], dtype=np.int32),
            "logprobs": np.array(data["logprobs"], dtype=np.float32),
            "weights": tuple(WeightSpan(start=start, version=version) for start, version in data["weights"]),
            "messages": tuple(data["messages"]),
            "tools": tuple(data["tools"]),
        }
    )


def _dump_sample(sample: Sample) -> Json:
    return {
        **dump_plain(sample),
        "ids": sample.ids.tolist(),
        "mask": np.flatnonzero(sample.mask).tolist(),
        "logprobs": _dump_floats(sample.logprobs[sample.mask]),
    }


def _load_sample(data: Mapping[str, Any]) -> Sample:
    ids = np.array(data["ids"], dtype=np.int32)
    mask = np.zeros(len(ids), dtype=np.bool_)
    mask[data["mask"]] = True
    logprobs = np.zeros(len(ids), dtype=np.float32)
    logprobs[mask] = np.array(data["logprobs"], dtype=np.float32)
    return Sample(**{**data, "ids": ids, "mask": mask, "logprobs": logprobs, "calls": tuple(data["calls"])})


def _dump_floats(values: np.ndarray) -> list[float]:
    return [float(f"{value:.9g}") for value in values.tolist()]
