"""The page of tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from astuner_logview.errors import BadRequest
from astuner_logview.library import Library
from astuner_logview.pages.lookups import find_row
from astuner_logview.parameters import Parameters
from astuner_logview.tokens.measures import MEASURES
from astuner_logview.tokens.overview import describe_minimap, find_ends, find_worst, list_numbers
from astuner_logview.tokens.paths import find_path
from astuner_logview.tokens.streams import Segment, TokenStream, build_stream
from astuner_logview.tokens.texts import TokenTexts, read_token_texts

CHUNK = 2048
START = 80
"""Characters of a segment's text that the page has before its tokens."""

WHY_NOT = {
    "logprob": "no token of this path was sampled with a log-probability",
    "advantage": "the episode has no reward, or its estimator is not one of core's",
}

GAPS = {
    "ref_logprob": "the run has no reference model (trainer_common.use_kl_loss), or its trainer does not keep it",
    "clipped": "no token of this path was clipped",
}
"""Why a number may be missing although the trainer has recorded the path."""


def show_stream(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return what the page needs before any token."""
    stream, record = _load(library, parameters)
    measures = []
    for name, measure in MEASURES.items():
        values = stream.values.get(name)
        low, high = (None, None) if values is None else find_ends(values)
        has = low is not None
        why = None if has else WHY_NOT.get(name) or _explain_gap(name, record)
        measures.append(
            {
                "name": name,
                "label": measure.label,
                "unit": measure.unit,
                "meaning": measure.meaning,
                "recorded": has,
                "why_not": why,
                "low": low,
                "high": high,
                "signed": measure.signed,
            }
        )
    return {
        "path": stream.leaf,
        "tokens": len(stream),
        "chunk": CHUNK,
        "segments": [_describe_segment(stream, segment) for segment in stream.segments],
        "measures": measures,
        "minimap": describe_minimap(stream),
        "worst": find_worst(stream),
        "record": record,
    }


def show_tokens(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return one chunk of a path."""
    stream, _ = _load(library, parameters)
    chunk = parameters.read_number("chunk")
    start = chunk * CHUNK
    if not 0 <= start < max(1, len(stream)):
        raise BadRequest(f"chunk: the path has {-(-len(stream) // CHUNK)} chunks", "count from 0")
    part = slice(start, start + CHUNK)
    trained = stream.trained[part]
    reasons = {
        str(place - start): segment.reason
        for segment in stream.segments
        if segment.reason is not None
        for place in range(max(segment.start, start), min(segment.end, start + CHUNK))
        if not stream.trained[place]
    }
    return {
        "start": start,
        "ids": stream.ids[part].tolist(),
        "texts": None if stream.texts is None else stream.texts[part],
        "kinds": stream.sampled[part].astype(int).tolist(),
        "calls": stream.calls[part].tolist(),
        "trained": trained.astype(int).tolist(),
        "reasons": reasons,
        "values": {name: list_numbers(values[part]) for name, values in stream.values.items()},
        "clipped": None if stream.clipped is None else stream.clipped[part].tolist(),
    }


def _load(library: Library, parameters: Parameters) -> tuple[TokenStream, dict[str, Any]]:
    run = library.find(parameters.run)
    row, leaf = find_row(run, parameters.read_text("id")), parameters.find_number("path")
    texts = read_texts(library, parameters)
    place = (run.path, row["split"], row["offset"], row["length"], row["verdict_offset"], row["advantages"], leaf, texts)
    key = (*place, library.records.sign(run.path, row["id"]))

    def make() -> tuple[TokenStream, dict[str, Any]]:
        episode = library.episodes.read(run.path, row)
        parts = find_path(episode, leaf)
        record = library.records.read(run.path, episode)
        stream = build_stream(episode, parts, texts, record.calls, json.loads(row["advantages"]))
        return stream, {"has": bool(record.calls), "text": record.text}

    return library.streams.get(key, make)


def read_texts(library: Library, parameters: Parameters) -> TokenTexts | None:
    """Return the texts of the tokens of a run's model; None if no tokenizer is left that can be read."""
    run = library.find(parameters.run)
    tokenizer = run.run.find_tokenizer()
    if tokenizer is None:
        return None
    try:
        return read_token_texts(tokenizer.file)
    except Exception as error:  # noqa: BLE001 - the file may hold anything, and its library raises Exception itself
        run.problems.append(f"{tokenizer.file}: the tokenizer cannot be read, so that tokens have no text: {error}")
        return None


def _explain_gap(name: str, record: Mapping[str, Any]) -> str:
    """Return why a measure of the trainer has no number in this path."""
    if not record["has"]:
        return str(record["text"])
    return GAPS.get(name, "the trainer does not compute it")


def _describe_segment(stream: TokenStream, segment: Segment) -> dict[str, Any]:
    start, end = segment.start, segment.end
    text = "" if stream.texts is None else "".join(stream.texts[start : min(end, start + START)])
    version = next((span.version for span in segment.call.weights), None) if segment.sampled else None
    return {
        "start": start,
        "end": end,
        "call": segment.call.index,
        "kind": "output" if segment.sampled else "prompt",
        "agent": segment.call.agent,
        "role": "assistant" if segment.sampled else _find_role(segment),
        "trained": segment.trained,
        "reason": segment.reason,
        "weight_version": version,
        "text_start": text[:START],
    }


def _find_role(segment: Segment) -> str:
    """Return the roles of the messages that a prompt added, each once."""
    messages = segment.call.messages
    return ", ".join(dict.fromkeys(str(message.get("role") or "user") for message in messages)) or "prompt"
