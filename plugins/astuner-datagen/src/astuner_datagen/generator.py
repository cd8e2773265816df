"""Generated tasks of one configuration: where they are stored, their cost, and making them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen

from astuner.contract.errors import PluginError, RunFailed
from astuner.contract.protocols import Reader
from astuner.contract.schema import Split, Task
from astuner.shared.clients import LLMOptions, Run, Usage
from astuner.shared.install_hints import install_command
from astuner_datagen.chunks import Chunk, cut_chunks, drop_repeats
from astuner_datagen.documents import DocumentFile, Library, count_other_files, find_files, open_library, read_files
from astuner_datagen.drafts import build_task, find_query
from astuner_datagen.formats import check_libraries
from astuner_datagen.generating import Generation, GenerationRequest, GenerationResult
from astuner_datagen.keys import train_key, validation_key
from astuner_datagen.options import KEY, DataGenerationOptions
from astuner_datagen.progress import Progress
from astuner_datagen.question_requests import Asker
from astuner_datagen.report import build_report
from astuner_datagen.samples import read_samples
from astuner_datagen.sources import from_chunks, from_samples, split_chunks
from astuner_datagen.task_files import SavedTasks
from astuner_datagen.vectors import open_embedding

_WANTED_BY = "reader 'data_generation'"
_WAVES = 2
"""Requests started together, as a multiple of the concurrency: enough to keep all slots busy."""


@frozen(kw_only=True)
class Parts:
    """The sources of the splits."""

    library: Library
    validation: Sequence[Chunk]
    train: Sequence[Chunk]
    left_out: int = 0
    """Chunks of neither split: they repeat parts of the validation's."""


class Generator:
    """Makes the tasks of the splits, or finds those made earlier from the same content with the same options."""

    def __init__(self, options: DataGenerationOptions, config_dir: Path, sample_reader: Reader | None) -> None:
        """Find the documents without parsing them. Raises `DataError`, and `PluginError` for a missing library."""
        self.options, self._config_dir, self._sample_reader = options, config_dir, sample_reader
        self.directory = (config_dir / Path(options.directory).expanduser()).resolve()
        self._spent = Usage()
        self._shares = False
        """Whether validation was made on the way to training."""
        self._paths: list[Path] = []
        if options.document_reader is not None:
            given = options.document_reader.document_path
            self._paths = find_files(given, config_dir.resolve(), f"{KEY}.document_reader.document_path")
            check_libraries({path.suffix.lower() for path in self._paths})

    def count_wanted(self, split: Split) -> int:
        """Return the requested number of tasks of a split."""
        return self.options.task_num if split == "train" else self.options.wanted_validation

    def locate_saved(self, split: Split) -> SavedTasks:
        """Return the files of a split's tasks, which may not exist."""
        validation = validation_key(self.options, self._files)
        key = validation if split == "validation" else train_key(self.options, validation, self._samples)
        return SavedTasks(self.directory, split, key)

    def report(self, split: Split) -> Mapping[str, Any] | None:
        """Return the report on the tasks of a split; None if there are none, or validation has changed since."""
        report = self.locate_saved(split).report
        if split == "train" and report is not None and self.count_wanted("validation"):
            validation = self.locate_saved("validation").report
            if validation is not None and validation["digest"] != report["kept_from"]:
                return None
        return report

    def make(self, split: Split, run: Run = asyncio.run) -> Sequence[Mapping[str, Any]]:
        """Make the tasks of a split, and return the reports on new ones.

        Validation tasks come first, since training must not repeat them. Complete files are left as they are, and
        incomplete ones continued. Raises `RunFailed` without any result.
        """
        reports: list[Mapping[str, Any]] = []
        questions: list[str] = []
        if split == "train" and self.count_wanted("validation"):
            if self.report("validation") is None:
                # With limits, training must be left its part of them.
                self._shares = True
                reports += self.make("validation", run)
            questions = [task.main_query for task in self.locate_saved("validation").tasks()]
        report = self.report(split)
        if split == "validation" and report is not None and self._shares:
            # Training keeps away from these; more of them would make it out of date.
            return reports
        if self.count_wanted(split) and (report is None or not report["complete"]):
            reports.append(run(self._make(split, questions)))
        return reports

    def build_request(self, split: Split, validation: Iterable[str] = ()) -> GenerationRequest:
        """Return the requests for a split; `validation` are the questions that training must not ask."""
        options, parts = self.options, self._parts
        if split == "validation":
            n = _per_request(options.knowledge_augmentor.n, self.count_wanted(split), len(parts.validation))
            return GenerationRequest(sources=from_chunks(parts.validation), count=self.count_wanted(split), per_request=n)
        taken = {find_query(sample): "duplicate_of_sample" for sample in self._samples}
        taken |= dict.fromkeys(validation, "duplicate_of_validation")
        sources = from_samples(self._samples, parts.train) if self._samples else from_chunks(parts.train)
        most = options.task_augmentor.n if self._samples else options.knowledge_augmentor.n
        n = _per_request(most, self.count_wanted(split), len(sources(0)))
        return GenerationRequest(sources=sources, count=self.count_wanted(split), per_request=n, taken=taken)

    @property
    def languages(self) -> Sequence[str]:
        """The languages of prompts."""
        reader = self.options.document_reader
        return reader.languages if reader is not None else ("en", "zh")

    @cached_property
    def llm(self) -> LLMOptions:
        """How the LLM is asked, with the public original's keys moved into place."""
        options = self.options
        return evolve(
            options.llm,
            model_name=options.model,
            concurrency=options.num_workers or options.llm.concurrency,
            cache=options.llm.cache or str(self.directory / "answers.sqlite"),
            extra={**options.llm.extra, **options.sampling_params},
        )

    @cached_property
    def _files(self) -> list[DocumentFile]:
        return read_files(self._paths, self._config_dir.resolve(), f"{KEY}.document_reader.document_path")

    @cached_property
    def _samples(self) -> list[Task]:
        return [] if self._sample_reader is None else read_samples(self._sample_reader, self.options.task_augmentor.max_samples)

    @cached_property
    def _parts(self) -> Parts:
        reader = self.options.document_reader
        if reader is None:
            return Parts(library=Library(), validation=(), train=())
        library = open_library(self._files, self.directory / "documents" if reader.cache_enabled else None)
        library.other_files = count_other_files(reader.document_path, self._config_dir.resolve())
        chunks = [chunk for document in library.documents for chunk in cut_chunks(document, reader.chunk_size, reader.split_by)]
        single = drop_repeats(chunks)
        validation, train = split_chunks(
            single,
            self.options.validation_share,
            validation=self.count_wanted("validation") > 0,
            train=self.count_wanted("train") > 0,
        )
        left_out = len(single) - len(validation) - len(train) if validation and train else 0
        return Parts(library=library, validation=validation, train=train, left_out=left_out)

    def _find_share(self, split: Split) -> LLMOptions:
        """Return the LLM's options with the limits of a split: validation, which comes first, must leave training its part."""
        validation, train = self.count_wanted("validation"), self.count_wanted("train")
        if split == "train" or not train or not self._shares:
            return self.llm
        part = validation / (validation + train)
        shares: dict[str, Any] = {
            name: max(1, int(limit * part))
            for name in ("max_requests", "max_total_tokens")
            if (limit := getattr(self.llm, name)) is not None
        }
        if self.llm.max_cost is not None:
            shares["max_cost"] = self.llm.max_cost * part
        return evolve(self.llm, **shares)

    async def _make(self, split: Split, validation: Sequence[str]) -> Mapping[str, Any]:
        if find_spec("openai") is None:
            raise PluginError(f"{_WANTED_BY} needs the package openai: {install_command('astuner-datagen')}")
        wanted = self.build_request(split, validation)
        params = self.options.deduplication_filter.params
        llm = self._find_share(split)
        client = llm.make_client(_WANTED_BY, model=self.options.model, config_dir=self._config_dir)
        # The limits hold for the whole process: what the other split spent counts.
        spent = self._spent
        client.budget.settle(Usage(), spent.prompt_tokens, spent.completion_tokens, requests=spent.requests)
        spent_before = client.budget.spent
        progress = Progress(split)
        comparing = open_embedding(self.options.deduplication_filter, self._config_dir, self.directory, client.budget)
        with closing(client), comparing as embedding:
            asker = Asker(
                client=client,
                languages=self.languages,
                max_tokens=self.options.llm_response_length,
                verify=self.options.verify,
            )
            waves = Generation(
                asker=asker,
                wanted=wanted,
                embedding=embedding,
                threshold=params.similarity_threshold,
                least_yield=self.options.least_yield,
                wave=_WAVES * self.llm.concurrency,
                progress=progress,
            )
            try:
                made = await waves.run()
            finally:
                progress.end()
            spent = _subtract(spent_before, client.budget.spent)
            self._spent = self._spent + spent
        if made.stopped is not None and llm != self.llm:
            made = evolve(made, stopped=f"{made.stopped}, validation's share of the limits in proportion to its tasks")
        if not made.drafts:
            raise RunFailed(f"no {split} task could be generated: {_explain_nothing(made)}")
        report = build_report(
            split,
            self.options,
            made,
            self._parts.library,
            spent,
            wanted=wanted.count,
            validation=validation,
            left_out=self._parts.left_out if split == "train" else 0,
        )
        self.locate_saved(split).write([build_task(draft, self.options.model) for draft in made.drafts], report)
        return report


def _per_request(most: int, wanted: int, sources: int) -> int:
    """Return how many questions a request asks for: just enough if every source is asked once."""
    return max(1, min(most, ceil(wanted / sources))) if sources else 1


def _subtract(before: Usage, after: Usage) -> Usage:
    """Return the usage in between."""
    return Usage(**{name: value - getattr(before, name) for name, value in asdict(after).items()})


def _explain_nothing(made: GenerationResult) -> str:
    """Return in one sentence why there is no result."""
    counts = [*(f"{count} requests: {reason}" for reason, count in made.failed.items())]
    counts += [f"{count} questions dropped: {reason}" for reason, count in made.dropped.items()]
    first = next(iter(made.examples.values()), None)
    said = [made.stopped or "", "; ".join(counts), f"for example {first}" if first else ""]
    return ". ".join(part for part in said if part)
