"""The messages to the LLM in each mode."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from astuner.contract.errors import DataError
from astuner.settings.config.paths import resolve_path
from astuner.shared.clients import Prompt, fill_prompt, load_prompt, load_user_prompt
from astuner_judges.asking import fence_rule
from astuner_judges.llm.options import LlmJudgeOptions, Mode

_PACKAGE = "astuner_judges.llm"

WORK_SLOTS: Mapping[Mode, tuple[str, ...]] = {
    "pointwise": ("answer",),
    "pairwise": ("first", "second"),
    "listwise": ("answers",),
    "relative": ("answers",),
}
"""The slots for the judged texts, which every prompt needs."""

TASK_SLOTS = ("query", "reference", "criteria")

BEGINNING = "beginning"
"""The slot of `relative` for what all conversations begin with."""

Messages = Sequence[Mapping[str, str]]


class Questions:
    """Fills the prompts of a mode; made once, when files are read and checked."""

    def __init__(self, options: LlmJudgeOptions, config_dir: Path, *, wanted_by: str) -> None:
        """Read the prompts and criteria; raises `DataError` for a file that cannot be read or lacks a slot."""
        mode, language = options.mode, options.language
        self._bounds = (
            {"min_score": f"{options.min_score:g}", "max_score": f"{options.max_score:g}"} if mode == "pointwise" else {}
        )
        self._system = load_prompt(_PACKAGE, f"{mode}_system", language).fill(
            {"fence_rule": fence_rule(language), **self._bounds}
        )
        self._user = self._question(options, config_dir, wanted_by)
        self._criteria = _criteria(options, config_dir, wanted_by)
        self._language = language

    def ask(self, task: Mapping[str, str], **work: str) -> Messages:
        """Return the question about some works, whose texts fill the slots of the mode."""
        filled = self._user.fill({**task, **self._bounds, "criteria": self._criteria, **work})
        return [{"role": "system", "content": self._system}, {"role": "user", "content": filled}]

    @property
    def has_beginning(self) -> bool:
        """Whether there is a place for what all conversations begin with."""
        return BEGINNING in self._user.slots

    def number_works(self, works: Sequence[str]) -> str:
        """Return several works in one text, numbered from 1."""
        return "\n\n".join(
            fill_prompt(_PACKAGE, "numbered_answer", self._language, number=str(number), answer=work)
            for number, work in enumerate(works, 1)
        )

    def _question(self, options: LlmJudgeOptions, config_dir: Path, wanted_by: str) -> Prompt:
        if options.prompt_file is None:
            return load_prompt(_PACKAGE, options.mode, options.language)
        work: Collection[str] = WORK_SLOTS[options.mode]
        return load_user_prompt(
            resolve_path(options.prompt_file, config_dir),
            f"{wanted_by}: prompt_file",
            required=work,
            known=(*work, *TASK_SLOTS, *self._bounds, *([BEGINNING] if options.mode == "relative" else [])),
        )


def _criteria(options: LlmJudgeOptions, config_dir: Path, wanted_by: str) -> str:
    if options.criteria is not None:
        text, place = options.criteria, "criteria"
    elif options.criteria_file is not None:
        file = resolve_path(options.criteria_file, config_dir)
        place = f"criteria_file: {file}"
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{wanted_by}: {place}: cannot be read as text in UTF-8: {error}") from error
    else:
        return fill_prompt(_PACKAGE, "criteria", options.language)
    if not text.strip():
        raise DataError(f"{wanted_by}: {place}: is empty; say in words what makes an answer good")
    return text.strip()
