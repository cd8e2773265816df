"""The file of learnt rubrics: with their origin, and how they do on unseen examples."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

import attrs

from astuner.contract.protocols import RunInfo
from astuner.shared.clients import LLMClient, LLMFailed, load_prompt
from astuner_judges.rubrics.examples import Example
from astuner_judges.rubrics.grading import PACKAGE, agreement, make_grader
from astuner_judges.rubrics.learning import Learner, Say
from astuner_judges.rubrics.options import WANTED_BY, RubricsOptions
from astuner_judges.rubrics.samples import Samples
from astuner_judges.rubrics.storage import HeldOut, Provenance, RubricFile, SavedTheme, digest_content, digest_values
from astuner_judges.rubrics.theme_grading import Panels

_NOT_IN_LEARNING = frozenset(
    {
        *("rubrics_file", "grader_name", "max_retries", "num_reference_samples", "llm", "embedding"),
        *("query_field", "answer_field", "reference_field", "label_field", "candidates_field", "rank_field"),
        *("input_data_type", "dataset_file", "env_service", "huggingface_dat_repo"),
    }
)
"""Options that the rubrics do not depend on, or only through the examples."""
_PROMPTS = ("system", "grade_pointwise", "grade_listwise", "propose_pointwise", "propose_listwise", "revise", "merge")


def fingerprint(options: RubricsOptions, samples: Samples, seed: int) -> str:
    """Return a digest of everything that learning depends on, except the LLM's randomness."""
    names = sorted({attribute.name for attribute in attrs.fields(type(options))} - _NOT_IN_LEARNING)
    chosen = {name: getattr(options, name) for name in names}
    asked = {"temperature": options.llm.temperature, "extra": dict(options.llm.extra)}
    texts = [load_prompt(PACKAGE, name, options.language).text for name in _PROMPTS]
    examples = [attrs.asdict(example) for example in (*samples.learning, *samples.held_out)]
    return digest_values(chosen, asked, attrs.asdict(options.embedding), texts, examples, seed)


async def learn_file(options: RubricsOptions, run_info: RunInfo, samples: Samples, client: LLMClient, say: Say) -> RubricFile:
    """Learn, check on the validation split, and return the content of the file; raises `LLMFailed` and `LLMBudgetSpent`."""
    max_tokens = run_info.config.task_judge.alien_llm_response_length
    learner = Learner(
        options=options,
        client=client,
        grader=make_grader(options, client, max_tokens),
        embedding=options.embedding.make_embedding(WANTED_BY, beside=client),
        seed=run_info.seed,
        max_tokens=max_tokens,
        say=say,
    )
    outcome = await learner.learn(samples)
    say(", ".join(f"{count} {name}" for name, count in outcome.counts.items() if count))
    panels = Panels(grader=learner.grader, themes=outcome.themes, requests=options.requests_per_answer, combine=options.combine)
    held_out = await _check_held_out(panels, samples, options)
    if held_out is not None:
        say(f"agreement with {held_out.examples} examples of the validation split: {held_out.agreement:.0%}")
    return RubricFile(
        themes=tuple(SavedTheme(name=theme.name, theme=theme.theme, tips=theme.tips) for theme in outcome.themes),
        grader_name=options.grader_name,
        grader_mode=options.grader_mode,
        language=options.language,
        learnt=Provenance(
            by=f"astuner-judges {version('astuner-judges')}",
            model=client.model,
            seed=run_info.seed,
            fingerprint=fingerprint(options, samples, run_info.seed),
            content=digest_content(outcome.themes),
            counts=outcome.counts,
            rubrics=outcome.rubrics,
            held_out=held_out,
            examples=tuple(digest for example in samples.learning for digest in example.digests),
        ),
    )


async def _check_held_out(panels: Panels, samples: Samples, options: RubricsOptions) -> HeldOut | None:
    async def share(example: Example) -> float | None:
        try:
            grades = await panels.grade(example.query, example.answers)
        except LLMFailed:
            return None
        scores = [grade.score for grade in grades]
        return agreement(options.grader_mode, options.success_threshold, example.labels, scores)

    shares = await asyncio.gather(*map(share, samples.held_out))
    known = [one for one in shares if one is not None]
    if not known:
        return None
    return HeldOut(examples=len(known), agreement=round(sum(known) / len(known), 4), failed=len(shares) - len(known))
