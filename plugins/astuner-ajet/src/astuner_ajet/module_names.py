"""What an import of a module answers that has another name here, or no counterpart."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import NoReturn

CURRENT, OLDER = "ajet", "astune"

OWN_LOOP = "`astuner run` leads the loop over tasks; write what your own loop does for one episode as `Workflow.execute`"

REMEDIES: Mapping[str, str] = {
    "ajet.backbone": "`astuner run --backbone NAME` starts a backbone",
    "ajet.context_tracker": "the gateway records calls and makes samples of them; `astuner episodes` shows both",
    "ajet.copilot.tinkerjet": OWN_LOOP,
    "ajet.data_generator": "the reader `data_generation` of astuner-readers generates tasks: task_reader.type: data_generation",
    "ajet.default_config": "set keys in the YAML, or in AgentJetJob(…).config; `astuner config schema` lists all of them",
    "ajet.schema.document": "the reader `data_generation` of astuner-readers reads documents",
    "ajet.schema": "the run directory holds episodes and samples; `astuner episodes` shows them",
    "ajet.task_judge.rm_auto_grader_judge": "astuner-judges has this judge: task_judge.judge_type: rubrics_auto_grader",
    "ajet.task_judge": "astuner-judges has judges, and `astuner plugin list` shows them: task_judge.judge_type",
    "ajet.task_reader": "astuner-readers has readers, and `astuner plugin list` shows them: task_reader.type",
    "ajet.task_rollout": "`astuner run` plays episodes; rollout.max_env_worker is how many at a time",
    "ajet.task_runner": "`astuner run` plays episodes; rollout.isolation is where",
    "ajet.swarm": OWN_LOOP,
    "ajet.tuner_lib.experimental": OWN_LOOP,
    "ajet.tuner_lib": "the methods of `tuner` return models and clients; annotate them with `typing.Any`",
    "ajet.utils.cleaner": "`astuner ps` and `astuner stop` end what astuner has started, and nothing else",
    "ajet.utils.compute_madness": "detectors find abnormal answers: rollout.compute_madness_checklist",
    "ajet.utils.config_utils": "`tuner.config` is the configuration, and `astuner config show` prints it",
    "ajet.utils.env_service_client": "`workflow_task.gym_env` is the environment: task_reader.type: env_service",
    "ajet.utils.launch_utils": "`astuner run` starts a run, with `--with-ray`, `--with NAME` and `services:`",
    "ajet.utils.smart_daemon": "`services:` of the YAML start programs, and `astuner run --with NAME` uses them",
    "ajet.utils.testing_utils": "rollout.name: scripted plays without a model; `astuner compare` compares the rewards of runs",
    "ajet.utils.tokenizer": "`workflow_task.tokenizer` is the tokenizer of the trained model",
}
"""Module, or a package with all below it → what took its place; the longest name that fits counts."""

OTHERWISE = "it belongs to AgentJet's own trainer; astuner-ajet has what agents, judges and readers import"


class ModuleFinder(MetaPathFinder):
    """Finds the modules of `ajet` under their older name, and answers an import of a module that is not there."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the specification of a module below `astune`, or of one below `ajet` that does not exist."""
        package, _, rest = name.partition(".")
        if not rest:
            return None
        if package == OLDER:
            return ModuleSpec(name, RenamedModule(f"{CURRENT}.{rest}"))
        if package == CURRENT and PathFinder.find_spec(name, path) is None:
            return ModuleSpec(name, AbsentModule(find_remedy(name)), is_package=True)
        return None


class RenamedModule(Loader):
    """Loads a module as another one."""

    def __init__(self, present: str) -> None:
        """`present` is the name of the module that there is."""
        self._present = present

    def exec_module(self, module: ModuleType) -> None:
        """Put the other module into its place, which is what the import then returns."""
        sys.modules[module.__name__] = importlib.import_module(self._present)


class AbsentModule(Loader):
    """Raises ImportError with what took the place of a module; a package in which modules differ waits until one is named."""

    def __init__(self, remedy: str) -> None:
        """Keep the remedy."""
        self._remedy = remedy

    def exec_module(self, module: ModuleType) -> None:
        """Raise ImportError."""
        if any(name.startswith(f"{module.__name__}.") for name in REMEDIES):
            module.__getattr__ = partial(refuse_name, module.__name__)  # type: ignore[method-assign] # of a module, not its class
            return
        raise ImportError(f"astuner-ajet has no module '{module.__name__}': {self._remedy}", name=module.__name__)


def find_remedy(module: str) -> str:
    """Return what took the place of a module of AgentJet that does not exist here."""
    above = module
    while above:
        if above in REMEDIES:
            return REMEDIES[above]
        above = above.rpartition(".")[0]
    return OTHERWISE


def refuse_name(module: str, name: str) -> NoReturn:
    """Raise for a name that a module does not have: ImportError with the remedy, AttributeError if it is not a public name."""
    if name.startswith("_"):
        raise AttributeError(f"module '{module}' has no attribute '{name}'")
    raise ImportError(f"cannot import '{name}' from '{module}': {find_remedy(module)}", name=module)


def answer_imports() -> None:
    """Make imports of such modules answer; once is enough."""
    if not any(isinstance(finder, ModuleFinder) for finder in sys.meta_path):
        # First: the finders behind it would look for older names in the folder of the present ones, and make them twice.
        sys.meta_path.insert(0, ModuleFinder())
