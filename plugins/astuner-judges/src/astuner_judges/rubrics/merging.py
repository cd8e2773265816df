"""Sorting the chosen rubrics into themes."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from astuner.shared.clients import LLMClient, LLMFailed, ask_for_json, fill_prompt
from astuner_judges.embedding import Embedding
from astuner_judges.rubrics.grading import PACKAGE, number_texts, system_message
from astuner_judges.rubrics.options import RubricsOptions
from astuner_judges.rubrics.rubric import Theme, make_names_distinct, to_one_line
from astuner_judges.rubrics.shapes import themes_shape

_TOKENS_PER_RUBRIC = 8
"""Tokens for a rubric's number in the answer; themes come on top."""


@frozen(kw_only=True)
class MergedThemes:
    """Themes, and if they are not the LLM's, why."""

    themes: tuple[Theme, ...]
    problem: str = ""


async def merge_rubrics(
    rubrics: Sequence[str], options: RubricsOptions, client: LLMClient, embedding: Embedding, max_tokens: int
) -> MergedThemes:
    """Return at most `merge_num_categories` themes, whose tips are the verified rubrics.

    If the LLM does not name themes that hold each rubric once, the rubrics are clustered by the similarity of their vectors, with
    the central one as the theme, and `problem` says so. Raises `LLMBudgetSpent`.
    """
    most = options.merge_num_categories
    asked = fill_prompt(PACKAGE, "merge", options.language, rubrics=number_texts(rubrics), most=str(most))
    messages = [system_message(options.language), {"role": "user", "content": asked}]
    room = max_tokens + _TOKENS_PER_RUBRIC * len(rubrics)
    try:
        found, _ = await ask_for_json(client, messages, themes_shape(len(rubrics), most), max_tokens=room)
    except LLMFailed as failure:
        return MergedThemes(themes=await _cluster_by_likeness(rubrics, most, embedding), problem=str(failure))
    themes = (
        Theme(name=one.name, theme=to_one_line(one.theme), tips=tuple(rubrics[number - 1] for number in sorted(one.rubrics)))
        for one in found.themes
    )
    return MergedThemes(themes=make_names_distinct(themes))


async def _cluster_by_likeness(rubrics: Sequence[str], most: int, embedding: Embedding) -> tuple[Theme, ...]:
    """Join the two clusters with the highest mean similarity until there are few enough."""
    vectors = await embedding.vectors(rubrics)
    alike = vectors @ vectors.T
    clusters = [[place] for place in range(len(rubrics))]
    while len(clusters) > most:
        pairs = [(one, other) for one in range(len(clusters)) for other in range(one + 1, len(clusters))]
        one, other = max(
            pairs, key=lambda pair: (round(float(alike[clusters[pair[0]]][:, clusters[pair[1]]].mean()), 9), -pair[0], -pair[1])
        )
        clusters[one] += clusters.pop(other)
    themes = []
    for number, cluster in enumerate(clusters, start=1):
        middle = max(sorted(cluster), key=lambda place: round(float(alike[place][cluster].mean()), 9))
        tips = tuple(rubrics[place] for place in sorted(cluster) if place != middle)
        themes.append(Theme(name=f"theme_{number}", theme=rubrics[middle], tips=tips))
    return tuple(themes)
