"""What a component may offer beyond the Protocol of its kind, one small Protocol for each offer.

Nothing registers an offer: a component makes it by having the attributes. `find_offer` looks for them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from astuner.contract.protocols.engine import Engine
    from astuner.contract.protocols.own_venv import OwnVenv
    from astuner.contract.protocols.run import RunInfo
    from astuner.contract.protocols.settled_value import SettledValue
    from astuner.contract.protocols.warm_start import TinyModelJob, WarmStartJob, WarmStartResult
    from astuner.contract.schema import Episode, Group, Split, Unjudged, Verdict, WorkflowOutput, WorkflowTask
    from astuner.settings.config.alignment import Alignment
    from astuner.settings.config.env_variables import ActionPreference
    from astuner.settings.memory_estimate.parts import MemoryPlan, MemoryQuestion

Offer = TypeVar("Offer")

Say = Callable[[str, Literal["info", "warning"]], None]
"""Shows the user a text at once, as `Control.notify` does."""


def find_offer(component: object, offer: Callable[..., Offer]) -> Offer | None:
    """Return the component, typed as the Protocol `offer`, if it has all of its attributes; None otherwise.

    An attribute that is None counts as missing, and so does a method that cannot be called. A wrapper that passes attributes on
    (`__getattr__`) makes the offers of the wrapped object, which `isinstance` does not see in every version of Python.
    """
    for name, is_method in _members(offer):
        found = getattr(component, name, None)
        if found is None or (is_method and not callable(found)):
            return None
    return cast("Offer", component)


def find_options_class(component: object) -> type[Any] | None:
    """Return the attrs class that the options of a component are structured into; None if it takes no options."""
    offer = find_offer(component, TakesOptions)
    return None if offer is None else offer.Options


@cache
def _members(offer: Callable[..., Any]) -> tuple[tuple[str, bool], ...]:
    """Return the names that a Protocol asks for, and whether each is a method."""
    attributes = dict.fromkeys(inspect.get_annotations(cast("type[Any]", offer)), False)
    methods = {name: not isinstance(value, property) for name, value in vars(offer).items() if name not in attributes}
    return tuple((name, is_method) for name, is_method in {**attributes, **methods}.items() if not name.startswith("_"))


# Of the class of any component.


class TakesOptions(Protocol):
    """The class has options: its YAML section is structured strictly into this attrs class."""

    Options: ClassVar[type[Any]]


class MadeFromRun(Protocol):
    """The class makes its instances itself, because they must know the run."""

    def from_run(self, options: Any, run_info: RunInfo | None) -> Any:
        """Return an instance; a classmethod. `options` is None without `Options`."""


class Honours(Protocol):
    """The class of a backbone, judge or engine names the keys that it acts on."""

    @property
    def honours(self) -> Iterable[str] | Mapping[str, Iterable[str]]:
        """Key paths below `astuner`, as shell patterns.

        An engine that does not act on the same keys under every backbone maps the backbone's name to patterns, `*` meaning all
        others; these keys count as honoured whatever the backbone does.
        """


# Of backbones: attributes of the class.


class Inapplicable(Protocol):
    """Names the keys that have no meaning for it."""

    @property
    def inapplicable(self) -> Mapping[str, str]:
        """Key patterns with the reason; setting one is answered with a notice."""


class Refuses(Protocol):
    """Names the keys that it does not support."""

    @property
    def refuses(self) -> Mapping[str, str]:
        """Key patterns with the reason; setting one is an error."""


class HasAlignment(Protocol):
    """Has its own configuration, into which the run's is translated."""

    @property
    def alignment(self) -> Alignment:
        """The table from our keys to native ones; the result comes as `run.native`."""


class PrefersEngines(Protocol):
    """Brings no engine, or several, and names those to take if the user names none."""

    @property
    def default_engine(self) -> str | tuple[str, ...]:
        """What `rollout.name: auto` means; of several the first that is installed with all its requirements."""


class BringsEngines(Protocol):
    """Serves some engines itself."""

    @property
    def brings_engines(self) -> tuple[str, ...]:
        """The values of `rollout.name` for which no engine of a plugin is made."""


class HasOwnVenv(Protocol):
    """Needs libraries that cannot share an environment with those of its users."""

    @property
    def own_venv(self) -> OwnVenv:
        """What its virtual environment is made of; `astuner setup NAME` makes it."""


class Throwaway(Protocol):
    """May keep only its latest run."""

    @property
    def throwaway(self) -> bool:
        """Whether each run is in `EXPERIMENT.NAME` next to the experiment's directory, and replaces the previous one."""


class WarmStarts(Protocol):
    """A backbone that trains on demonstrations: `astuner warm-start`.

    Order and rate come from `astuner.runs.training.supervised`.
    """

    def warm_start(self, run: RunInfo, job: WarmStartJob, say: Callable[[str], object]) -> WarmStartResult:
        """Train on the cross entropy of the trained tokens and write the model, alike for the same job; `say` shows progress."""


class ChecksWarmStarts(Protocol):
    """A backbone that trains on demonstrations, and knows before it starts what it cannot do."""

    def check_warm_start(self, run: RunInfo, job: WarmStartJob) -> None:
        """Raise `AstunerError` for what `warm_start` would refuse; called before anything is played or started."""


class MakesTinyModels(Protocol):
    """A backbone that makes tiny models for new tasks: `astuner warm-start --tiny`, also for a backbone that makes none."""

    def make_tiny_tokenizer(self, job: TinyModelJob) -> Any:
        """Write the tokenizer alone, and return it, one of transformers; imports no torch."""

    def make_tiny_model(self, job: TinyModelJob) -> None:
        """Write a model with random weights next to the tokenizer."""


# Of engines and readers.


class SettlesValues(Protocol):
    """The class of a backbone or engine says what open settings become on this machine: `config explain` shows it."""

    def settle_values(self, run_info: RunInfo) -> Sequence[SettledValue]:
        """Return the values; a classmethod. It imports nothing heavy. A value with a `cost` is reported when a run starts."""


class PlansMemory(Protocol):
    """The class of a backbone or engine computes what it will hold in memory: `config explain --memory` shows it.

    A run whose plan does not fit the machine is refused before anything is loaded.
    """

    def plan_memory(self, run_info: RunInfo, question: MemoryQuestion) -> MemoryPlan:
        """Return the plan; a classmethod. It imports nothing heavy, and raises `AstunerError` for what the machine cannot do."""


class KnowsItsNeeds(Protocol):
    """The class of an engine reports whether it can be used here, for backbones that take the first usable one."""

    def lacks(self, options: Mapping[str, Any]) -> str | None:
        """Return what is missing or not set, or None; a classmethod. `options` are as written."""


class ReportsProgress(Protocol):
    """A reader or an engine that reports its preparation."""

    def report_to(self, say: Say) -> object:
        """Take a function that shows messages; called before a reader's first `read`, and before an engine's `start`."""


class ReadsFiles(Protocol):
    """A reader whose tasks come from files: `run.json` records their digests, and a resume names the one that changed."""

    def list_files(self) -> Iterable[Path]:
        """Return the files; called after the tasks were read once."""


class ReadsRevisions(Protocol):
    """A reader whose tasks come from something with versions: `run.json` records them, and a resume names the changed one."""

    def list_revisions(self) -> Mapping[str, str]:
        """Return the version of each source by its name; called after the tasks were read once."""


class MeasuresBusyTime(Protocol):
    """An engine that measures itself, for the metric `time/engine_s`."""

    @property
    def busy_s(self) -> float:
        """The seconds so far in which at least one request was under way."""


class GivesAccess(Protocol):
    """An engine whose models other processes reach without it, as rollouts in several processes do (`rollout.players`)."""

    def give_access(self) -> EngineAccess | None:
        """Return the way to the models with their present weights, equal to the last one if nothing has changed.

        Called between two rounds; None if there is none now, so that all requests go through this engine.
        """


class EngineAccess(Protocol):
    """Opens an engine in another process; it crosses processes pickled."""

    @property
    def same_machine(self) -> bool:
        """Whether it works on the machine of the original engine only."""

    def open(self) -> Engine:
        """Make an engine over the same models; it is started in the event loop that uses it, and never gets new weights.

        A request that it cannot begin is passed to the original engine.
        """


class WouldGenerate(Protocol):
    """A reader that may have to make its tasks first, and pay for it."""

    def would_generate(self, split: Split) -> str | None:
        """Describe what that would take; None if the tasks exist. `astuner run --dry-run` shows it, and then reads no task."""


class PrefersActions(Protocol):
    """The class of a reader says how actions are read off answers to its tasks, where an environment leads."""

    def prefer_actions(self, options: Any) -> ActionPreference:
        """Return the form, for configurations that name none; a classmethod. `options` is None without `Options`."""


# Of estimators.


class SaysWhatItCompares(Protocol):
    """The class of an estimator says whether a group's advantages depend on that group's rewards alone.

    One that does not say so counts as group-relative.
    """

    group_relative: ClassVar[bool]
    """False if all episodes of a step are compared: then `filter_groups` has nothing to filter."""


class WeighsTokens(Protocol):
    """An estimator that needs the number of trained tokens, or gives tokens of one episode different advantages."""

    def token_advantages(
        self, groups: Sequence[NDArray[np.float64]], returns: Sequence[Sequence[NDArray[np.float64]]]
    ) -> Sequence[Sequence[NDArray[np.float64]]]:
        """Return one advantage per trained token, in the shapes of `returns`; called in place of `advantages`.

        `groups` are the rewards, as there. `returns` has, for each of them, one number per trained token, in order: the reward,
        less the penalties from that token on. Without `use_kl_in_reward` all are the reward itself.
        """


# Of loggers.


class Truncates(Protocol):
    """A logger that can drop what a resumed run writes again."""

    def truncate_after(self, step: int) -> object:
        """Remove the rows after a step; -1 removes all."""


class ShowsProgress(Protocol):
    """A logger with a display."""

    def progress(self, what: str, done: int, total: int) -> object:
        """Show progress."""


class ShowsNotices(Protocol):
    """A logger that shows notices."""

    def notice(self, text: str, level: str) -> object:
        """Show a text."""


class LinksSteps(Protocol):
    """A logger that can link a step to a page about it."""

    def link_steps(self, url: str) -> object:
        """Take the URL of the pages, with `{step}` for the number; called before the first step if a service has such pages."""


class NamesViewer(Protocol):
    """A logger whose results another program shows."""

    def format_viewer_command(self) -> str:
        """Return the command that shows them, as it is typed in the working directory; the end of a run names it."""


# Of what is accepted in place of a subclass of `Workflow` or `Judge`.


class PlaysEpisodes(Protocol):
    """A class that plays episodes as a `Workflow` does."""

    def execute(self, *arguments: Any) -> Any:
        """Play one episode."""


class NamesTargets(Protocol):
    """A workflow class that names its trained targets."""

    @property
    def trainable_targets(self) -> Iterable[str]:
        """Target tags that are trained."""


class JudgesGroups(Protocol):
    """An object with the methods of a `Judge`."""

    async def observe(self, episode: Episode, environment: Any) -> Mapping[str, Any]:
        """Look at an episode while its environment lives."""

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        """Return one verdict per completed episode."""


class ScoresEpisodes(Protocol):
    """A judge in its short form."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Any:
        """Return a number, `(number, bool)`, a `Verdict`, or an awaitable of one."""


class ComparesSiblings(Protocol):
    """A judge that says whether its verdict on an episode may depend on the others of the group, or on their order."""

    @property
    def compares_siblings(self) -> bool:
        """If not, `astuner judge eval` shows it each answer once."""


class Closes(Protocol):
    """Holds resources that must be released."""

    def close(self) -> Any:
        """Release them; sync, or async."""


# Of episode stores.


class AddsEncoded(Protocol):
    """A store that takes episodes as other processes have encoded them."""

    def add_encoded(self, episode: Episode, line: bytes) -> None:
        """Store a finished episode; `line` is what `astuner.runs.store.codec.encode_episode` made of it."""


# Of environments.


class OffersTools(Protocol):
    """An environment whose model may call tools."""

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The tools that may be called now, in OpenAI's form; read before each answer."""
