"""The reader `data_generation`: tasks that an LLM makes from documents and samples, generated once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from astuner.contract.protocols import Reader, ReaderTraits, RunInfo
from astuner.contract.schema import Split, Task
from astuner.shared.clients import call_with_runner
from astuner_datagen.generator import Generator
from astuner_datagen.options import DataGenerationOptions
from astuner_datagen.report import describe_report
from astuner_datagen.samples import sample_reader


class DataGenerationReader:
    """Yields generated tasks; the first reading makes them, unless `astuner data generate` has."""

    traits = ReaderTraits(may_generate=True)

    Options = DataGenerationOptions

    def __init__(self, options: DataGenerationOptions, config_dir: Path, samples: Reader | None) -> None:
        self.generator = Generator(options, config_dir, samples)

    @classmethod
    def from_run(cls, options: DataGenerationOptions, run_info: RunInfo) -> DataGenerationReader:
        """Make the reader; paths start at the configuration's directory. Finds documents and samples, without asking the LLM."""
        samples = None if options.query_reader is None else sample_reader(options.query_reader, run_info)
        return cls(options, run_info.config_dir, samples)

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split, generating them first if necessary; nothing for validation without documents.

        Incompletely generated tasks are read as they are, so that a resumed run has the same ones.
        """
        if not self.generator.count_wanted(split):
            return
        if self.generator.report(split) is None:
            for report in call_with_runner(partial(self.generator.make, split)):
                for line in describe_report(report):
                    print(line, file=sys.stderr)
        yield from self.generator.locate_saved(split).tasks()

    def would_generate(self, split: Split) -> str | None:
        """Return what reading a split would have to generate first, and how to do that; None if the tasks exist."""
        wanted = self.generator.count_wanted(split)
        if not wanted or self.generator.report(split) is not None:
            return None
        return (
            f"{wanted} {split} tasks are yet to be generated, by asking an LLM: astuner data generate --conf FILE --split {split}"
        )
