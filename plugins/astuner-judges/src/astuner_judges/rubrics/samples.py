"""The labelled samples of a run: read by the reader that the options name."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from attrs import frozen

from astuner.contract.errors import DataError, PluginError
from astuner.contract.protocols import Reader, RunInfo
from astuner.contract.schema import Split
from astuner_judges.evaluation.joining import join
from astuner_judges.evaluation.labelled import LabelledExample, read_examples
from astuner_judges.rubrics.examples import Example, build_examples, check_enough, has_an_order, make_counterexamples
from astuner_judges.rubrics.options import KEY, RubricsOptions


@frozen(kw_only=True)
class Samples:
    """The samples that rubrics are learnt from and checked on."""

    learning: tuple[Example, ...]
    """Rubrics are proposed for these."""
    evidence: tuple[Example, ...]
    """Rubrics grade these: the above, and if all of them are good, each answer under another question."""
    held_out: tuple[Example, ...] = ()
    """From the validation split; none of them is among the others."""
    shared: int = 0
    """Number of validation samples left out because they are."""
    unordered: int = 0
    """Number of other samples left out because they have no two answers for a listwise grader to order."""


def read_samples(options: RubricsOptions, run_info: RunInfo) -> Samples:
    """Read the first `num_reference_samples` of each split; raises `DataError` and `PluginError`."""
    reader = _make_reader(options, run_info)
    rows = _read_first(reader, "train", options)
    if not rows:
        raise DataError(f"{KEY}.{options.input_data_type}: its training split has no rows to learn from")
    learning = build_examples(rows, options)
    check_enough(learning, options)
    evidence = list(learning)
    if options.grader_mode == "pointwise" and all(example.is_good for example in learning):
        evidence += make_counterexamples(learning, options.min_score, run_info.seed)
    known = {one for example in learning for one in example.digests}
    checks = _read_first(reader, "validation", options)
    unseen = [row for row in checks if not known & {*row.digests}]
    telling = [row for row in unseen if options.grader_mode == "pointwise" or has_an_order(row)]
    return Samples(
        learning=tuple(learning),
        evidence=tuple(evidence),
        held_out=tuple(build_examples(telling, options)),
        shared=len(checks) - len(unseen),
        unordered=len(unseen) - len(telling),
    )


def _read_first(reader: Reader, split: Split, options: RubricsOptions) -> list[LabelledExample]:
    """Return the first rows of a split, or for a listwise grader its first questions, each with the answers of all its rows."""
    rows = read_examples(reader.read(split), options.fields)
    most = options.num_reference_samples
    return join(rows, most) if options.grader_mode == "listwise" else list(islice(rows, most))


def _make_reader(options: RubricsOptions, run_info: RunInfo) -> Reader:
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.drivers import load, make
    from astuner.settings.plugins.options import build_options

    name = options.input_data_type
    section: Mapping[str, Any] = getattr(options, name)
    if not section:
        raise DataError(
            f"{KEY}: there are no rubrics yet, and no labelled samples to learn them from: give the options of the reader in "
            f"{name} (or choose another by input_data_type), or name rubrics that are there by rubrics_file"
        )
    catalog = Catalog.discover(disabled=run_info.config.plugins.disabled, kinds=("reader",))
    candidate = catalog.find("reader", name, config_dir=run_info.config_dir, key=f"{KEY}.input_data_type")
    if candidate.missing:
        needs = ", ".join(candidate.missing)
        raise PluginError(f"{KEY}.input_data_type: {candidate.blame} needs {needs}, which is not installed: {candidate.remedy}")
    reader_options = build_options(load(candidate), section, key=f"{KEY}.{name}")
    reader: Reader = make(candidate, reader_options, run_info)
    return reader
