"""Episodes as JSON and back, exactly: float32 values survive in nine significant digits, and packed in a line bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from attrs import asdict, fields_dict

from astuner.contract.plain_values import DEEPEST_RECORD, make_plain, read_text
from astuner.contract.schema import Call, Episode, Failure, Finding, Sample, Task, Unjudged, Verdict, WeightSpan, WorkflowOutput
from astuner.contract.user_values.outputs import check_output
from astuner.contract.user_values.verdicts import check_verdict
from astuner.runs.store.packed_arrays import pack_arrays, pack_bytes, unpack_arrays, unpack_bytes

Json = dict[str, Any]
Report = Callable[[str], None]
T = TypeVar("T")


def dump_episode(episode: Episode) -> Json:
    """Return the episode as JSON values."""
    data = _dump(episode)
    for holder in (*data["calls"], *data["samples"]):
        for name in ("prompt_ids", "output_ids", "ids", "mask", "logprobs"):
            if name in holder:
                holder[name] = _dump_floats(holder[name]) if name == "logprobs" else holder[name].tolist()
    return data


def _dump(episode: Episode) -> Json:
    """Return the episode as JSON values and arrays."""
    return {
        **dump_plain(episode),
        "task": dump_task(episode.task),
        "output": None if episode.output is None else _dump_output(episode.output),
        "calls": [_dump_call(call) for call in episode.calls],
        "samples": [_dump_sample(sample) for sample in episode.samples],
        "untrained": dict(episode.untrained),
        "failures": [dump_plain(failure) for failure in episode.failures],
        "observations": dict(episode.observations),
        "verdict": dump_verdict(episode.verdict),
        "findings": {name: [dump_plain(finding) for finding in found] for name, found in episode.findings.items()},
    }


def encode_record(record: Json, report: Report | None = None) -> bytes:
    """Return a record as a line of the store.

    What user code hands over was made plain before, so that everything in a record is JSON. If something is not, as what a hook
    has put there, its text is stored and `report` gets a message: no content of an episode can end a run.
    """
    try:
        return _encode(record)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        plain = make_plain(record, deepest=DEEPEST_RECORD)
        if report is not None:
            what = plain.replaced or ("text that is not valid Unicode" if plain.mended else read_text(error))
            report(f"the store of episodes was given what JSON does not have, and keeps its text: {what}")
        return _encode(plain.value)


def _encode(record: Json) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def decode_record(line: bytes) -> Any:
    """Return a record of the store. Text that an earlier version has left there is mended if it is not valid Unicode."""
    record = json.loads(line)
    # Surrogates are written as escapes, or as bytes that begin with these.
    return make_plain(record, deepest=DEEPEST_RECORD).value if b"\\u" in line or b"\xed" in line else record


def encode_episode(episode: Episode, report: Report | None = None) -> bytes:
    """Return the episode as a line of the store, which begins with the few facts that an index needs."""
    data = _dump(episode)
    facts = read_facts(data, episode.completed, episode.verdict)
    arrays = pack_arrays(data)
    calls = pack_bytes(encode_record({name: data.pop(name) for name in ("calls", "samples")}, report))
    return encode_record({"kind": "episode", "facts": facts, "episode": data, "calls": calls, "arrays": arrays}, report)


def read_facts(data: Json, completed: bool, verdict: Verdict | Unjudged | None) -> Json:
    """Return what an index keeps of a dumped episode."""
    place = {"id": data["id"], "step": data["step"], "task_id": data["task"]["task_id"], "repeat": data["repeat"]}
    return {**place, "completed": completed, **judge_facts(verdict)}


def judge_facts(verdict: Verdict | Unjudged | None) -> Json:
    """Return what an index keeps of a verdict."""
    known = {} if verdict is None else {"reward": verdict.reward, "is_success": verdict.is_success}
    return {"reward": None, "is_success": None, **known, "judge_failed": isinstance(verdict, Unjudged)}


def unpack_record(record: Any, *, arrays: bool = True) -> Any:
    """Return a decoded record with the calls and samples of its episode, or with lengths in place of arrays."""
    if "arrays" in record:
        del record["facts"]
        packed = record.pop("arrays")
        record["episode"] |= decode_record(unpack_bytes(record.pop("calls")))
        if arrays:
            unpack_arrays(record["episode"], packed)
    return record


def decode_episode(line: bytes) -> Episode:
    """Return the episode that `encode_episode` encoded."""
    return load_episode(unpack_record(decode_record(line))["episode"])


def load_episode(data: Mapping[str, Any]) -> Episode:
    """Return the episode that `dump_episode` wrote.

    One whose output an earlier version has stored and this one would have refused, such as a reward of 1e308, has failed.
    """
    output, refusal = load_output(data["output"])
    failures = tuple(Failure(**failure) for failure in data["failures"])
    if refusal is not None:
        failures += (Failure(reason="workflow_error", detail=refusal, attempt=len(failures)),)
    return Episode(
        **{
            **data,
            "task": load_task(data["task"]),
            "output": output,
            "calls": tuple(_load_call(call) for call in data["calls"]),
            "samples": tuple(_load_sample(sample) for sample in data["samples"]) if refusal is None else (),
            "failures": failures,
            "verdict": None if refusal is not None else load_verdict(data["verdict"]),
            "findings": {name: tuple(Finding(**one) for one in found) for name, found in data["findings"].items()},
        }
    )


def load_output(data: Mapping[str, Any] | None) -> tuple[WorkflowOutput | None, str | None]:
    """Return a stored output, and why it cannot be used."""
    if data is None:
        return None, None
    try:
        return check_output(_load(WorkflowOutput, data)).output, None
    except (TypeError, ValueError) as error:
        return None, str(error)


def _load(kind: Callable[..., T], data: Mapping[str, Any]) -> T:
    """Make a record of the fields that it has; subclasses of users may have stored others."""
    names = fields_dict(kind)  # type: ignore[arg-type]  # an attrs class
    return kind(**{name: value for name, value in data.items() if name in names})


def dump_plain(record: Any) -> Json:
    """Return a flat attrs record as JSON values."""
    return asdict(record, recurse=False)


def dump_task(task: Task) -> Json:
    """Return a task as JSON values, without what a subclass of a user's adds."""
    dumped = {name: getattr(task, name) for name in fields_dict(Task)}
    if not task.columns:
        del dumped["columns"]
    return dumped


def load_task(data: Mapping[str, Any]) -> Task:
    """Return what `dump_task` wrote."""
    return _load(Task, data)


def _dump_output(output: WorkflowOutput) -> Json:
    """Return an output as JSON values: its response is an object of the workflow's process."""
    return {name: value for name, value in dump_plain(output).items() if name != "response"}


def dump_verdict(verdict: Verdict | Unjudged | None) -> Json | None:
    """Return a verdict as JSON values; an `Unjudged` differs from a `Verdict` by its `reason`."""
    return None if verdict is None else dump_plain(verdict)


def load_verdict(data: Mapping[str, Any] | None) -> Verdict | Unjudged | None:
    """Return what `dump_verdict` wrote; an `Unjudged` for numbers that this version would have refused."""
    if data is None:
        return None
    return _load(Unjudged, data) if "reason" in data else check_verdict(_load(Verdict, data))


def _dump_call(call: Call) -> Json:
    return {**dump_plain(call), "weights": [[span.start, span.version] for span in call.weights]}


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
    return {**dump_plain(sample), "mask": np.flatnonzero(sample.mask), "logprobs": sample.logprobs[sample.mask]}


def _load_sample(data: Mapping[str, Any]) -> Sample:
    ids = np.array(data["ids"], dtype=np.int32)
    mask = np.zeros(len(ids), dtype=np.bool_)
    mask[data["mask"]] = True
    logprobs = np.zeros(len(ids), dtype=np.float32)
    logprobs[mask] = np.array(data["logprobs"], dtype=np.float32)
    return Sample(**{**data, "ids": ids, "mask": mask, "logprobs": logprobs, "calls": tuple(data["calls"])})


def _dump_floats(values: np.ndarray) -> list[float]:
    """Return float32 values rounded to nine significant digits."""
    return [float(f"{value:.9g}") for value in values.tolist()]
