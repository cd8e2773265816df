"""The options of the judge `llm`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import ge, optional

from astuner.shared.clients import Language, LLMOptions

Mode = Literal["pointwise", "pairwise", "listwise", "relative"]
VoteAggregation = Literal["mean", "median", "majority"]


def _require_mode(*modes: Mode) -> Callable[[Any, Attribute[Any], Any], None]:
    """Refuse a value in a mode in which it would have no effect."""

    def check(instance: LlmJudgeOptions, attribute: Attribute[Any], value: Any) -> None:
        if instance.mode not in modes and value != attribute.default:
            raise ValueError(f"has no effect with mode: {instance.mode}; it belongs to {' and '.join(modes)}")

    return check


def _above_min_score(instance: LlmJudgeOptions, attribute: Attribute[Any], value: float) -> None:
    if value <= instance.min_score:
        raise ValueError(f"max_score ({value:g}) has to be above min_score ({instance.min_score:g})")


def _is_a_score(instance: LlmJudgeOptions, attribute: Attribute[Any], value: float | None) -> None:
    if instance.mode == "relative" and value is not None and not 0 <= value <= 1:
        raise ValueError(f"{value:g} must be from 0 to 1, the scores of mode: relative")
    if instance.mode != "relative" and value is not None and not instance.min_score <= value <= instance.max_score:
        raise ValueError(f"{value:g} must be from min_score ({instance.min_score:g}) to max_score ({instance.max_score:g})")


def _is_the_only_one(instance: LlmJudgeOptions, attribute: Attribute[Any], value: str | None) -> None:
    if value is not None and instance.criteria is not None:
        raise ValueError("criteria and criteria_file exclude each other")


def _lets_votes_differ(instance: LlmJudgeOptions, attribute: Attribute[Any], value: LLMOptions) -> None:
    if instance.votes > 1 and value.temperature == 0:
        raise ValueError(f"votes: {instance.votes} at llm.temperature 0 are the same answer over and over; raise it, to 0.7 say")


@frozen(kw_only=True)
class LlmJudgeOptions:
    """What the LLM is asked, and how its answers become rewards."""

    mode: Mode = "pointwise"
    """`pointwise` scores each answer; `pairwise` compares siblings two by two; `listwise` ranks all siblings at once; `relative`
    scores the conversations of all siblings at once, without labels, as RULER does."""
    criteria: str | None = None
    """What makes an answer good, in words; null takes general criteria."""
    criteria_file: str | None = field(default=None, validator=_is_the_only_one)
    """The same from a text file, relative to the YAML."""
    language: Language = "en"
    """Of our prompts and criteria."""
    prompt_file: str | None = None
    """A text file that replaces our question, with the slots of its mode (see docs/judges.md); relative to the YAML."""
    answer_key: str | None = "final_answer"
    """Where the workflow's output metadata holds the answer; null takes the model's last reply. `relative` needs none."""
    answer_chars: int = field(default=20_000, validator=ge(1))
    """Most characters of an answer that are shown; a longer one is shown without its middle."""
    reference_key: str | None = "answer"
    """Where the task's metadata may hold a right answer to show; null shows none."""
    transcript_chars: int | None = field(default=None, validator=optional(ge(1)))
    """Show the whole conversation too, up to this many characters; null shows only the answer, and with `relative` up to 16,000
    characters of each conversation."""
    min_score: float = field(default=0.0, validator=_require_mode("pointwise"))
    """The score of the worst answer; its reward is 0."""
    max_score: float = field(default=10.0, validator=[_require_mode("pointwise"), _above_min_score])
    """The score of the best answer; its reward is 1."""
    success_threshold: float | None = field(default=None, validator=[_require_mode("pointwise", "relative"), _is_a_score])
    """The score from which on an answer is a success; null leaves it open."""
    votes: int = field(default=1, validator=ge(1))
    """How often each question is asked, at `llm.temperature`. A verdict needs more than half of the votes."""
    vote_aggregation: VoteAggregation = field(default="mean", validator=_require_mode("pointwise"))
    """How several scores become one; `majority` takes the most frequent, the lowest of several. Comparisons go by majority."""
    pairs_per_episode: int | None = field(default=None, validator=[optional(ge(1)), _require_mode("pairwise")])
    """How many siblings each answer is compared with; null compares all with all. Each comparison is two questions."""
    pair_reward: Literal["win_rate", "bradley_terry"] = field(default="win_rate", validator=_require_mode("pairwise"))
    """`win_rate` is the share of comparisons won, a tie half; `bradley_terry` is the expected win rate against all
    siblings, from strengths fitted to the comparisons: fairer if not all pairs are compared."""
    orders: int = field(default=2, validator=[ge(2), _require_mode("listwise", "relative")])
    """In how many orders the LLM sees the siblings: each order and its reverse, then rotated ones."""
    lone_reward: float | None = field(default=None, validator=_require_mode("pairwise", "listwise"))
    """The reward of an episode without a sibling to compare with; null gives none, with the reason `no_siblings`."""
    attempts: int = field(default=3, validator=ge(1))
    """How often an LLM is asked until its answer has the required form."""
    max_tokens: int | None = field(default=None, validator=optional(ge(1)))
    """Longest answer of the LLM; `task_judge.alien_llm_response_length` when null."""
    llm: LLMOptions = field(factory=LLMOptions, validator=_lets_votes_differ)
    """How the LLM is asked; `model_name` null is `task_judge.alien_llm_model`."""
