"""What a filter may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import frozen

Kind = Literal["number", "text", "flag"]


@frozen
class Key:
    """Something that is known of an episode."""

    kind: Kind
    meaning: str
    examples: tuple[str, ...]
    column: str = ""
    """Of the index; empty for keys that need more than one."""


KEYS: Mapping[str, Key] = {
    "reward": Key("number", "The reward.", ("reward<0.5", "reward:none", "reward:0..1"), "reward"),
    "advantage": Key("number", "The advantage, the mean of its agents.", ("advantage<0", "advantage:none"), "advantage"),
    "step": Key("number", "The training step; of a validation, the steps before it.", ("step:30..40", "step>=30"), "step"),
    "tokens": Key("number", "Sampled tokens.", ("tokens>2000",), "tokens"),
    "trained": Key("number", "Tokens that samples train.", ("trained:0",), "trained"),
    "signal": Key("number", "Trained tokens whose advantage is not 0.", ("signal:0",), "signal"),
    "turns": Key("number", "Model calls with an answer.", ("turns:1..3", "turns>5"), "turns"),
    "duration": Key("number", "Seconds that it took.", ("duration>10",), "duration"),
    "repeat": Key("number", "The place among its siblings, from 0.", ("repeat:2",), "repeat"),
    "task": Key("text", "The id of the task.", ("task:ID", 'task:"a b"', "task:train-*"), "task"),
    "split": Key("text", "train or validation.", ("split:validation", "split:train"), "split"),
    "agent": Key("text", "An agent that called the model.", ("agent:critic",), "agents"),
    "finding": Key("text", "A detector that found something.", ("finding:wrong_toolcall", "finding:any"), "findings"),
    "lost": Key("text", "Why sampled tokens are not learnt from.", ("lost:constrained", "lost:no_signal", "lost:any"), "lost"),
    "failed": Key("flag", "The episode or its judge failed; with a reason, for that one.", ("failed", "failed:timeout")),
    "judge": Key("text", "Whether the judge failed.", ("judge:failed", "judge:ok")),
    "success": Key("text", "Whether it was a success.", ("success:yes", "success:no", "success:unknown"), "success"),
    "component": Key("text", "A named part of the reward.", ("component:format<1", "component:format"), "components"),
}
