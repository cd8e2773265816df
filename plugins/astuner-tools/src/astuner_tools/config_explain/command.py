"""`astuner config explain`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict, evolve

from astuner.cli.options import add_config_options
from astuner.cli.output import align_columns, print_json
from astuner.cli.own_venv import enter_venv, enter_venv_of
from astuner.contract.errors import ConfigError, Problem

if TYPE_CHECKING:
    from astuner.settings.config.loading import LoadedConfig
    from astuner.settings.plugins.catalog import Catalog
    from astuner_tools.config_explain.explanation import ExplainedKey, Explanation

LONGEST_VALUE = 60
"""Characters; a longer value is cut in the table, but not in the JSON."""


EXAMPLE = """\b
Example:
  astuner config explain --conf tune.yaml --backbone local"""


@click.command(epilog=EXAMPLE)
@add_config_options
@click.option("--all", "everything", is_flag=True, help="Also show keys that hold their default.")
@click.option(
    "--isolated", is_flag=True, help="For somebody else's YAML: read no environment variable, and no file or code that it names."
)
def explain(conf: Path, backbone: str | None, overrides: Sequence[str], in_json: bool, everything: bool, isolated: bool) -> int:
    """Show where each value comes from and what acts on it, down to the backbone's own keys. Nothing is started.

    With --json, what is sound of a YAML with mistakes is explained too.
    """
    if not isolated:
        enter_venv_of(conf, overrides, backbone)
    elif backbone is not None:
        enter_venv(backbone, conf.parent)
    explanation, problems, notices = _explain_config(conf, overrides, backbone, with_faults=in_json, isolated=isolated)
    if in_json:
        print_json(_build_document(explanation, problems, notices))
        return 2 if problems else 0
    click.echo("\n".join(_format_lines(explanation, everything)))
    for notice in notices:
        click.echo(notice, err=True)
    if problems:
        raise ConfigError(problems)
    return 0


def _explain_config(
    conf: Path, overrides: Sequence[str], backbone: str | None, *, with_faults: bool, isolated: bool
) -> tuple[Explanation, Sequence[Problem], Sequence[str]]:
    """Return the explanation, the problems and the notices; `with_faults` explains what is sound of a YAML with mistakes."""
    from astuner.settings.config.loading import examine_config

    loaded = examine_config(conf, overrides, backbone, isolated=isolated)
    if loaded.problems and not with_faults:
        raise ConfigError(loaded.problems)
    with loaded.secrets.hide_in_errors():
        return _explain_loaded(loaded, isolated=isolated)


def _explain_loaded(loaded: LoadedConfig, *, isolated: bool) -> tuple[Explanation, Sequence[Problem], Sequence[str]]:
    from astuner.contract.protocols import BackboneTraits, EngineTraits, SettledValue
    from astuner.contract.protocols.traits import read_traits
    from astuner.episodes.rollout.worker_count import choose_count, count_cores
    from astuner.settings.planning.chooser import Chooser
    from astuner.settings.planning.engine_choice import choose_engine
    from astuner.settings.planning.key_coverage import HonourTable, check_honoured
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.component import Component
    from astuner.settings.plugins.drivers import load
    from astuner_tools.config_explain.explanation import explain as explain_config

    catalog = Catalog.discover(loaded.config.plugins.disabled, kinds=("backbone", "engine", "function"))
    if isolated and not _is_installed(catalog, "backbone", loaded.config.backbone):
        names = ", ".join(sorted({candidate.name for candidate in catalog.candidates("backbone")}))
        raise ConfigError(
            [Problem(message=f"with --isolated, give the name of an installed one: {names}.", key="astuner.backbone")]
        )
    candidate = catalog.find("backbone", loaded.config.backbone, config_dir=loaded.path.parent, key="astuner.backbone")
    # Problems of the engine itself are left to `config validate`.
    chosen_backbone = Component(candidate=candidate)
    engine = None
    if not isolated or _is_installed(catalog, "engine", loaded.config.rollout.name, "auto"):
        engine = choose_engine(Chooser(loaded, catalog), loaded, catalog, chosen_backbone).component
    trainer, target = load(candidate), load(engine.candidate) if engine else None
    table = HonourTable.of(trainer, candidate.name, target)
    # What is settled depends on the machine, and on the files of the model.
    settling = [] if isolated else [chosen_backbone, *([engine] if engine else [])]
    explanation = explain_config(loaded, table, settling)
    problems, notices = check_honoured(loaded, table)
    if not isolated and table.find_honour("rollout.players").acted_on:
        brought = bool(read_traits(trainer, BackboneTraits).brings_engines)
        reachable = brought if target is None else read_traits(target, EngineTraits).gives_access
        workers = choose_count(loaded.config, reachable=reachable, cores=count_cores(), catalog=catalog)
        settled = SettledValue(key="rollout.players", value=workers.count, because=workers.why)
        explanation = evolve(explanation, settled=(settled, *explanation.settled))
    if explanation.native is not None:
        problems += explanation.native.problems
        notices += explanation.native.notices
    secrets = loaded.secrets
    return explanation, (*loaded.problems, *map(secrets.hide_in_problem, problems)), secrets.hide_in_tree(notices)


def _is_installed(catalog: Catalog, kind: str, name: str, *others: str) -> bool:
    """Whether a component is chosen by the name of an installed one: otherwise its code is imported from any path."""
    return name in {*others, *(candidate.name for candidate in catalog.candidates(kind))}


def _format_lines(explanation: Explanation, everything: bool) -> Iterator[str]:
    shown = [key for key in explanation.keys if everything or key.source != "default"]
    rows = [
        (key.key, format_value(key.value), key.place or "default", _describe_actor(key, explanation.backbone)) for key in shown
    ]
    yield align_columns([("KEY", "VALUE", "FROM", "ACTED ON BY"), *rows])
    yield ""
    if explanation.settled:
        rows3 = [(one.key, format_value(one.value), one.because) for one in explanation.settled]
        yield align_columns([("ON THIS MACHINE", "VALUE", "WHY"), *rows3])
        yield from (f"{one.key}: {one.cost}" for one in explanation.settled if one.cost)
        yield ""
    native = explanation.native
    if native is None:
        yield f"The backbone '{explanation.backbone}' has no native configuration: it reads these keys itself."
        return
    rows3 = [(value.key, format_value(value.value), _describe_source(value.source, value.because)) for value in native.values]
    yield align_columns([(f"NATIVE KEY ({native.root})", "VALUE", "FROM"), *rows3])


def _describe_actor(key: ExplainedKey, backbone: str) -> str:
    honour = key.honour
    match honour.status:
        case "core":
            return "core"
        case "backbone":
            return backbone
        case "engine":
            return "the engine"
        case "aligned":
            return f"{'core; ' if honour.core_too else ''}{backbone}: {', '.join(honour.native)}"
        case "inapplicable":
            return f"nothing: {honour.reason}"
        case _:
            return f"refused: {honour.reason}" if key.source != "default" else f"nothing: {honour.reason}"


def _describe_source(source: str, because: str) -> str:
    words = {"default": "the trainer's default", "constant": "the backbone", "alignment": "", "override": "", "set": ""}
    return f"{words[source]}: {because}" if words[source] and because else words[source] or because


def format_value(value: Any) -> str:
    """Return a value of a configuration as JSON, shortened to a cell."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _build_document(explanation: Explanation, problems: Sequence[Problem], notices: Sequence[str]) -> dict[str, Any]:
    keys = [
        {"key": key.key, "value": key.value, "source": key.source, "place": key.place, **asdict(key.honour)}
        for key in explanation.keys
    ]
    native = explanation.native
    return {
        "backbone": explanation.backbone,
        "keys": keys,
        "native": [asdict(value) for value in native.values] if native is not None else None,
        "settled": [asdict(one) for one in explanation.settled],
        "notices": list(notices),
        "problems": [asdict(problem) for problem in problems],
    }
