"""Symptoms around the model: limits that cut answers, prompts that do not arrive, an engine that is not the trainer's."""

from __future__ import annotations

from collections import Counter

from astuner.contract.schema import Call, Episode
from astuner_tools.diagnosis.curves import take_late
from astuner_tools.diagnosis.findings import Evidence
from astuner_tools.diagnosis.groups import name_reason
from astuner_tools.diagnosis.run_record import RunRecord
from astuner_tools.diagnosis.signal_checks import Limits

TURN, MODEL, RESPONSE = "rollout.max_response_length_in_one_turn", "rollout.max_model_len", "data.max_response_length"
SPOKEN = ("system", "developer", "user")
"""Roles whose texts belong in a first prompt."""
STEPS, TIME = "rollout.multi_turn.max_steps", "rollout.episode_timeout_s"


def find_cut_answers(record: RunRecord, limits: Limits) -> Evidence | None:
    """A limit ends many episodes or answers of the last steps."""
    cut = [(one, found) for one in record.late if (found := _find_limit(record, one)) is not None]
    if len(record.late) < limits["episodes"] or len(cut) < limits["share"] * len(record.late):
        return None
    key = Counter(found for _, found in cut).most_common(1)[0][0]
    own = [one for one, found in cut if found == key]
    what, value = _explain_limit(record, key, own[0])
    others = len(cut) - len(own)
    return Evidence(
        numbers={
            "cut": len(cut),
            "episodes": len(record.late),
            "share": len(cut) / len(record.late),
            "limit": what,
            "others": f", {others} of them by other limits" if others else "",
        },
        episodes=[one.id for one in own],
        key=key or "max_tokens",
        value=value,
    )


def find_hidden_tools(record: RunRecord, limits: Limits) -> Evidence | None:
    """Agents offer tools, and their names are in no prompt."""
    decode, offered = record.decode, [(one, call) for one in record.episodes for call in one.calls if call.tools]
    if decode is None or not offered:
        return None
    seen = offered[: int(limits["episodes"])]
    hidden = [one for one, call in seen if not any(name in decode(call.prompt_ids.tolist()) for name in _name_tools(call))]
    if len(hidden) < len(seen) or any(call.reply.get("tool_calls") for _, call in offered):
        return None
    names = ", ".join(_name_tools(seen[0][1])[:3])
    return Evidence(numbers={"tools": names, "prompts": len(seen)}, episodes=[one.id for one in hidden])


def find_hidden_prompt(record: RunRecord, limits: Limits) -> Evidence | None:
    """Messages of the agent are not in the prompt: the template leaves them out."""
    decode, hidden, roles, looked = record.decode, list[str](), Counter[str](), 0
    if decode is None:
        return None
    for one in record.episodes:
        call = next((call for call in one.calls if call.parent is None and len(call.prompt_ids)), None)
        if call is None or looked >= limits["episodes"]:
            continue
        looked += 1
        text = _squeeze(decode(call.prompt_ids.tolist()))
        for message in call.messages:
            words = message.get("content")
            if message.get("role") in SPOKEN and isinstance(words, str) and _squeeze(words) and _squeeze(words)[:40] not in text:
                roles[str(message.get("role"))] += 1
                hidden.append(one.id)
    if not looked or not roles or roles.most_common(1)[0][1] < looked * limits["share"]:
        return None
    return Evidence(
        numbers={"role": roles.most_common(1)[0][0], "prompts": roles.most_common(1)[0][1], "looked": looked},
        episodes=list(dict.fromkeys(hidden)),
    )


def find_mismatch(record: RunRecord, limits: Limits) -> Evidence | None:
    """Trainer and engine give the sampled tokens different probabilities, and no update explains it."""
    exp_abs, k3 = take_late(record, "mismatch/exp_abs_mean"), take_late(record, "mismatch/k3_kl")
    stale = take_late(record, "staleness/mean") or 0.0
    far = (k3 is not None and k3 >= limits["k3"]) or (exp_abs is not None and exp_abs >= limits["exp_abs"])
    if not far or stale > limits["staleness"]:
        return None
    largest = take_late(record, "mismatch/abs_max")
    return Evidence(
        numbers={
            "exp_abs": exp_abs if exp_abs is not None else float("nan"),
            "k3": f", divergence {k3:.2g} nats a token" if k3 is not None else "",
            "largest": f", up to {largest:.2g} nats for one token" if largest is not None else "",
        },
        episodes=[one.id for one in record.late],
    )


def find_stale_samples(record: RunRecord, limits: Limits) -> Evidence | None:
    """Tokens are trained that weights of several updates ago have sampled."""
    mean = take_late(record, "staleness/mean")
    if mean is None or mean < limits["mean"]:
        return None
    largest = max(value for _, value in record.read("staleness/max") or [(0, mean)])
    return Evidence(numbers={"mean": mean, "largest": largest}, episodes=[one.id for one in record.late])


def _find_limit(record: RunRecord, one: Episode) -> str | None:
    """Return the key of the limit that ended an episode or its last answer; "" for one of the agent's own."""
    reason = name_reason(one)
    if reason == "max_steps":
        return STEPS
    if reason == "timeout":
        return TIME
    last = next((call for call in reversed(one.calls) if call.untrained is None), None)
    if reason == "context_full" or (last is not None and last.finish_reason == "context"):
        return _find_context_key(record, one)
    if last is None or last.finish_reason != "length":
        return None
    return TURN if len(last.output_ids) >= int(record.get(TURN, 0)) > 0 else ""


def _find_context_key(record: RunRecord, one: Episode) -> str:
    return RESPONSE if _measure_first_prompt(one) + int(record.get(RESPONSE, 0)) < int(record.get(MODEL, 0)) else MODEL


def _measure_first_prompt(one: Episode) -> int:
    return next((len(call.prompt_ids) for call in one.calls if call.parent is None), 0)


def _explain_limit(record: RunRecord, key: str, one: Episode) -> tuple[str, str]:
    """Return the limit in words, and a value that is twice as large."""
    if not key:
        length = len(one.calls[-1].output_ids)
        return f"the agent's own `max_tokens`, {length}", str(2 * length)
    now = record.get(key, 0)
    if key == RESPONSE:
        first = _measure_first_prompt(one)
        return f"{first + now:,} tokens = the first prompt ({first:,}) + `{key}` ({now:,})", str(2 * int(now))
    return f"`{key}`, {now:,}", str(2 * int(now))


def _name_tools(call: Call) -> list[str]:
    found = (tool.get("function") for tool in call.tools)
    return [str(one["name"]) for one in found if isinstance(one, dict) and one.get("name")]


def _squeeze(text: str) -> str:
    """Return the letters and digits alone: tokenizers and templates may change the rest."""
    return "".join(filter(str.isalnum, text)).lower()
