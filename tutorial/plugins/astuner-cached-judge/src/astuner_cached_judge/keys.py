"""The key of a verdict, made of everything it depends on."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import attrs

from astuner.contract.protocols import Candidate
from astuner.contract.schema import Episode, Group

FORMAT = 1
"""Increased when keys change their meaning: verdicts of other formats are then not found."""


def judge_key(candidate: Candidate, options: Any) -> str:
    """Return the identity of a judge: where it comes from, its version, its code and its options."""
    chosen = attrs.asdict(options) if attrs.has(type(options)) else options
    return _hash([FORMAT, candidate.name, candidate.dist, candidate.version, candidate.target, _source(candidate.target), chosen])


def episode_key(judge: str, episode: Episode) -> str:
    """Return the key of the verdict of a judge that sees this episode alone."""
    return _hash([judge, "episode", _content(episode)])


def group_key(judge: str, group: Group) -> str:
    """Return the key of the verdicts of a judge that compares siblings: all of them count, the failed ones too."""
    return _hash([judge, "group", [_content(episode) for episode in group.episodes]])


def _content(episode: Episode) -> Any:
    """Return the parts of an episode that a verdict may depend on. Its time, speed and weights are left out."""
    return [
        attrs.asdict(episode.task),
        None if episode.output is None else attrs.asdict(episode.output),
        episode.observations,
        [[call.agent, call.finish_reason, call.messages, call.reply] for call in episode.calls],
        [failure.reason for failure in episode.failures[-1:]] if episode.output is None else [],
    ]


def _source(target: str) -> str:
    """Return a digest of the judge's own file: the version does not change while the file is edited."""
    place = target.rpartition(":")[0]
    spec = None if place.endswith(".py") else importlib.util.find_spec(place)
    file = Path(place if spec is None else spec.origin or "")
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
