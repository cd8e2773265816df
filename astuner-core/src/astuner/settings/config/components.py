"""The sections that choose a component: `task_reader`, `task_judge`, `context_tracker`.

Each has a few keys, and any number of sections named after components, which hold their options. These are
kept as written: the component that is chosen structures its own (see `astuner.settings.config.structuring.structure_options`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import ge

from astuner.settings.config.rewards import JudgeChoice, RewardComposition

OPEN = "open"
"""Field metadata: this field takes in the sections of other names."""

ONE_OR_MANY = "one_or_many"
"""Field metadata: a single item is read as a list of one."""

Sections = Mapping[str, Mapping[str, Any]]


def find_section(sections: Sections, name: str) -> Mapping[str, Any]:
    """Return the options of a component; empty when there are none."""
    # `distribution/name` chooses between two plugins of one name; the section keeps the plain name.
    return sections.get(name, sections.get(name.rpartition("/")[2], {}))


@frozen(kw_only=True)
class OpenSection:
    """A section that chooses a component, and holds the options of any number of them under their names."""

    sections: Sections = field(factory=dict, metadata={OPEN: True})
    """Options by the name of a component, as written."""

    def get_options(self, name: str) -> Mapping[str, Any]:
        """Return the options of a component; empty when there are none."""
        return find_section(self.sections, name)


@frozen(kw_only=True)
class TaskReader(OpenSection):
    """Where tasks come from."""

    type: str = "env_service"
    """The reader."""


def check_positive(_: Any, attribute: Attribute[Any], value: float | None) -> None:
    """Refuse a limit that is not positive; null is none."""
    if value is not None and not value > 0:
        raise ValueError(f"'{attribute.name}' must be > 0, or null for no limit: {value}")


@frozen(kw_only=True)
class TaskJudge(OpenSection):
    """Where rewards come from, for episodes that the workflow itself gave none."""

    judge_type: str = "customized_protocol"
    """The judge; `customized_protocol` takes the one that `judge_protocol` names."""
    judge_protocol: str | None = None
    """`package.module->Class`, `package.module:Class`, `./file.py:Class`, or the name of an installed judge."""
    alien_llm_model: str = "qwen3-235b-a22b-instruct-2507"
    """The LLM that a judge may ask."""
    alien_llm_response_length: int = field(default=512, validator=ge(1))
    """Most tokens of its answer."""
    judges: tuple[JudgeChoice, ...] = ()
    """Several judges, whose rewards are combined, instead of `judge_type`."""
    timeout_s: float | None = field(default=600.0, validator=check_positive)
    """Longest that a judge may take for an episode, or for a group if it compares siblings, and again to observe an episode;
    null sets no limit. With several judges, each has this time."""
    reward: RewardComposition = field(factory=RewardComposition)
    """How the rewards of the judges become one. A reward that the workflow gives is left as it is."""


@frozen(kw_only=True)
class TimelineMergingPolicy:
    """Which conversations the tracker `timeline` makes one sample of."""

    timeline_compare_level: Literal["token", "text"] = "token"
    """`token` trains each sampled token under exactly the ids it was sampled under. `text` also trains an answer inside a later
    conversation that holds it word for word, under another prefix: fewer samples, and inexact."""
    ignore_tools: bool = True
    """With `text`: conversations with different tools may be one sample. `token` compares ids, and tools are among them."""
    force_inexact: bool = False
    """Train with `text` anyway."""


@frozen(kw_only=True)
class ContextTracker(OpenSection):
    """How training samples are read off the calls of an episode."""

    context_tracker_type: str = "timeline"
    """The tracker."""
    alien_llm_model: str = "qwen3-235b-a22b-instruct-2507"
    """The LLM that a tracker may ask for summaries."""
    alien_llm_response_length: int = field(default=512, validator=ge(1))
    """Most tokens of a summary, whoever writes it."""
    max_env_len: int = field(default=4096, validator=ge(1))
    """Longest message of a step of an environment that leads, in tokens; the rest is cut off, with a mark."""
    timeline_merging_policy: TimelineMergingPolicy = field(factory=TimelineMergingPolicy)
    fix_retokenization_drift: bool = True
    """Always holds: a sampled token is never encoded again."""
    detect_timeline_snap: bool = False
    """Say where the conversation of an agent first branched into several samples (tracker `timeline`)."""
    log_tool_format_check: bool = False
    """Has no effect; a malformed tool call is reported once, and a detector can keep each."""
    log_tool_format_error_detail: bool = False
    """Has no effect; see `log_tool_format_check`."""
