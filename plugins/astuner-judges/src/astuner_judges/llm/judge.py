"""The judge `llm`: an LLM behind any OpenAI-compatible API scores, compares or ranks the answers of a group."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from attrs import evolve

from astuner.contract.errors import PluginError
from astuner.contract.protocols import Judge, JudgeTraits, RunInfo
from astuner.contract.schema import Episode, Group, Task, Unjudged, Verdict
from astuner.shared.clients import Budget, LLMClient
from astuner.shared.install_hints import install_command
from astuner_judges.asking import write_totals
from astuner_judges.llm.asker import Asker
from astuner_judges.llm.episode_text import describe_conversation, describe_task, describe_work
from astuner_judges.llm.listwise import rank_works
from astuner_judges.llm.options import LlmJudgeOptions
from astuner_judges.llm.pairwise import compare_works
from astuner_judges.llm.pointwise import score_works
from astuner_judges.llm.questions import Questions
from astuner_judges.llm.relative import score_conversations
from astuner_judges.llm.relative_scores import Works, judge_lone, name_works


class LlmAsJudge(Judge):
    """Gives rewards from 0 to 1, with the LLM's reasons. If the LLM fails, the episode has no reward.

    The judged text is shown inside fences that it cannot close (`astuner_judges.asking`). The same work on the same task is
    judged once in a group, and gets the same reward.
    """

    traits = JudgeTraits(honours=("task_judge.alien_llm_model", "task_judge.alien_llm_response_length"), asks_service=True)
    Options = LlmJudgeOptions

    def __init__(self, options: LlmJudgeOptions, client: LLMClient, questions: Questions, run_info: RunInfo, name: str) -> None:
        """Store what `from_run` made."""
        self._options, self._client, self._questions, self._run_info, self._name = options, client, questions, run_info, name
        self.traits = evolve(self.traits, compares_siblings=options.mode != "pointwise")
        self._asker = Asker(
            client,
            max_tokens=options.max_tokens or run_info.config.task_judge.alien_llm_response_length,
            attempts=options.attempts,
            votes=options.votes,
            first_seed=options.llm.extra.get("seed", 0),
        )

    @classmethod
    def from_run(cls, options: LlmJudgeOptions, run_info: RunInfo, *, name: str = "llm") -> LlmAsJudge:
        """Read prompts and criteria, and find the LLM without asking it.

        Raises `DataError` for a file, `NoEndpoint` for an environment that names no LLM, and `PluginError` without `openai`.
        """
        wanted_by = f"judge '{name}'"
        if find_spec("openai") is None:
            raise PluginError(f"{wanted_by} asks through the library openai: {install_command('astuner-judges[llm]')}")
        questions = Questions(options, run_info.config_dir, wanted_by=wanted_by)
        model = run_info.config.task_judge.alien_llm_model
        client = options.llm.make_client(wanted_by, model=model, config_dir=run_info.config_dir)
        return cls(options, client, questions, run_info, name)

    @property
    def budget(self) -> Budget:
        """The usage so far."""
        return self._client.budget

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        """Return a verdict per completed episode."""
        completed = [episode for episode in group.episodes if episode.completed]
        describe = describe_conversation if self._options.mode == "relative" else describe_work
        shown = [describe(episode, self._options) for episode in completed]
        there = [(episode, work) for episode, work in zip(completed, shown, strict=True) if not isinstance(work, Unjudged)]
        found = iter(await self._judge_by_mode(group.task, [episode for episode, _ in there], [work for _, work in there]))
        return [work if isinstance(work, Unjudged) else next(found) for work in shown]

    async def close(self) -> None:
        """Close the client, and log its usage with the run."""
        self._client.close()
        write_totals(self._client, self._run_info, judge=self._name)

    async def _judge_by_mode(self, of: Task, episodes: Sequence[Episode], works: Works) -> Sequence[Verdict | Unjudged]:
        options = self._options
        if not works:
            return []
        # Everything is read before the first question, so that an unreadable answer costs nothing.
        task = describe_task(of, options)
        if options.mode == "pointwise":
            return await score_works(works, task, questions=self._questions, asker=self._asker, options=options)
        key = f"{self._run_info.seed}\n{task['query']}"
        if options.mode == "relative":
            return await score_conversations(works, task, questions=self._questions, asker=self._asker, options=options, key=key)
        if len(works) == 1:
            return [judge_lone(options.lone_reward, options.mode)]
        if options.mode == "listwise":
            return await rank_works(works, task, questions=self._questions, asker=self._asker, options=options, key=key)
        names = name_works(episodes, works)
        return await compare_works(works, names, task, questions=self._questions, asker=self._asker, options=options, key=key)
