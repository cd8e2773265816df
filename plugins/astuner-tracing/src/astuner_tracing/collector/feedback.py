"""A user's feedback: as a service reports it, and as it is stored, OpenTelemetry's event for evaluations."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from astuner.model.http_server import load_json
from astuner_tracing.annotations import ANNOTATOR, CONVERSATION, CORRECTION, EVALUATION, USER, to_number
from astuner_tracing.collector.bodies import BadRequest
from astuner_tracing.otlp import to_hex_id

_IDS = {"trace_id": 16, "span_id": 8}
_TEXTS = ("conversation_id", "name", "label", "comment", "correction", "user")
_KEYS = (*_IDS, *_TEXTS, "score", "thumbs")
_THUMBS = {"up": (1.0, "thumbs_up"), "down": (0.0, "thumbs_down")}


def build_feedback_document(body: bytes) -> Mapping[str, Any]:
    """Return the log record of a body such as `{"trace_id": …, "thumbs": "up"}`. Raises `BadRequest` saying what is wrong."""
    try:
        value = load_json(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(400, f"the body is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadRequest(400, "the body must be a JSON object")
    _check(value)
    ids = {name: to_hex_id(value[name], size) for name, size in _IDS.items() if value.get(name)}
    score, label = _THUMBS.get(value.get("thumbs") or "", (None, None))
    said = {
        "gen_ai.evaluation.name": value.get("name") or "user_feedback",
        "gen_ai.evaluation.score.value": to_number(value["score"]) if value.get("score") is not None else score,
        "gen_ai.evaluation.score.label": value.get("label") or label,
        "gen_ai.evaluation.explanation": value.get("comment"),
        CONVERSATION: value.get("conversation_id"),
        CORRECTION: value.get("correction"),
        USER: value.get("user"),
        ANNOTATOR: "human",
    }
    record = {
        "timeUnixNano": str(time.time_ns()),
        "eventName": EVALUATION,
        "attributes": [{"key": key, "value": _to_any_value(item)} for key, item in said.items() if item not in (None, "")],
        **({"traceId": ids["trace_id"]} if "trace_id" in ids else {}),
        **({"spanId": ids["span_id"]} if "span_id" in ids else {}),
    }
    scope = {"scope": {"name": "astuner.feedback"}, "logRecords": [record]}
    return {"resourceLogs": [{"resource": {}, "scopeLogs": [scope]}]}


def _check(value: Mapping[str, Any]) -> None:
    unknown = [key for key in value if key not in _KEYS]
    if unknown:
        raise BadRequest(400, f"unknown fields: {', '.join(map(str, unknown))}; the fields are: {', '.join(_KEYS)}")
    for name, size in _IDS.items():
        if value.get(name) is not None and to_hex_id(value[name], size) is None:
            raise BadRequest(400, f"{name} must be {2 * size} hex digits, not {str(value[name])[:60]!r}")
    if not any(value.get(name) for name in ("trace_id", "span_id", "conversation_id")):
        raise BadRequest(400, "what is rated is missing: give trace_id, span_id or conversation_id")
    for name in _TEXTS:
        if value.get(name) is not None and not isinstance(value[name], str):
            raise BadRequest(400, f"{name} must be a string, not {value[name]!r}")
        if any("\ud800" <= character <= "\udfff" for character in value.get(name) or ""):
            raise BadRequest(400, f"{name} holds half a surrogate pair, which is not a character")
    score = value.get("score")
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float) or to_number(score) is None):
        raise BadRequest(400, f"score must be a number, not {score!r}")
    if value.get("thumbs") not in (None, *_THUMBS):
        raise BadRequest(400, f"thumbs must be 'up' or 'down', not {value['thumbs']!r}")
    if score is None and not any(value.get(name) for name in ("thumbs", "label", "comment", "correction")):
        raise BadRequest(400, "the feedback is empty: give score, thumbs, label, comment or correction")


def _to_any_value(value: Any) -> Mapping[str, Any]:
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)}
