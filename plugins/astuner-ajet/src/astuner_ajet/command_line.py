"""The command line of AgentJet as that of `astuner run`."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import field, frozen

DEFAULT_BACKBONE = "verl"
"""What AgentJet trains with when the command line names no backbone, whatever the YAML says."""

PASSED_ON = ("ray", "appworld", "logview")
"""Programs with an option of the same name."""

SERVICES = ("deepfinance", "webshop", "bfcl", "crafters")
"""Programs that are services here, which the YAML starts."""

NO_EFFECT: Mapping[str, str] = {
    "autokill": "astuner ends only what it has started: `astuner ps` shows it, and `astuner stop` ends it",
    "prefix": "`services:` in the YAML names programs",
    "reboot": "each run starts its programs; `--fresh` restarts those that an earlier run kept warm",
    "skip_check_avail_gpu": "a backbone checks the memory that its run needs; `astuner doctor` shows GPUs",
    "with_ray_cluster": "start Ray on the nodes, and set RAY_ADDRESS for the run",
}
"""Options without a counterpart → what took their place."""


@frozen
class Translated:
    """A command of astuner's, and what was left out."""

    arguments: Sequence[str]
    """The arguments of `astuner`."""
    notices: Sequence[str] = field(factory=tuple)

    def format_command(self) -> str:
        """Return the command as it is typed."""
        return shlex.join(("astuner", *self.arguments))


def translate(arguments: Sequence[str]) -> Translated:
    """Return the command of astuner that does what `ajet ARGUMENTS` does; options of `astuner run` are passed on.

    Exits as argparse does for `--help`, and for a command line that starts nothing.
    """
    parser = make_parser()
    known, others = parser.parse_known_args(arguments)
    if not known.conf:
        parser.error(f"--conf FILE is missing{_explain_kill(known)}")
    found = ["run", "--conf", known.conf, "--backbone", known.backbone or DEFAULT_BACKBONE]
    unused = {name.replace("_", "-"): reason for name, reason in NO_EFFECT.items() if getattr(known, name)}
    notices = [f"--{name} has no effect: {reason}" for name, reason in unused.items()]
    if known.kill:
        notices.insert(0, f"--kill has no effect: {NO_EFFECT['autokill']}")
    if known.exp_dir:
        found += ["--set", f"experiment_dir={Path(known.exp_dir) / Path(known.conf).stem}"]
    for tag in filter(None, known.debug.split("|")):
        found += ["--db", tag]
    found += [f"--with-{name}" for name in PASSED_ON if getattr(known, f"with_{name}")]
    for name in SERVICES:
        if getattr(known, f"with_{name}"):
            found += ["--with", name]
    if not known.backbone:
        notices.append(f"--backbone is {DEFAULT_BACKBONE}, as in AgentJet; `--backbone debug` plays without training")
    return Translated([*found, *others], notices)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of AgentJet's options."""
    description = "Run a project of AgentJet with `astuner run`, whose options are accepted too."
    parser = argparse.ArgumentParser(prog="ajet", allow_abbrev=False, description=description)
    parser.add_argument("--conf", default="", metavar="FILE", help="the YAML of the run")
    parser.add_argument("--backbone", default="", metavar="NAME", help=f"the backbone ({DEFAULT_BACKBONE})")
    parser.add_argument("--exp-dir", default="", metavar="DIR", help="the directory of run directories")
    parser.add_argument("--debug", "--db", default="", metavar="TAG[|TAG]...", help="breakpoints to stop at")
    for name in (*PASSED_ON, *SERVICES):
        parser.add_argument(f"--with-{name}", action="store_true", help=f"start {name}")
    parser.add_argument("--kill", default="", metavar="WORDS", help=argparse.SUPPRESS)
    parser.add_argument("--prefix", default="", help=argparse.SUPPRESS)
    for name in ("autokill", "reboot", "skip-check-avail-gpu", "with-ray-cluster"):
        parser.add_argument(f"--{name}", action="store_true", help=argparse.SUPPRESS)
    return parser


def _explain_kill(known: argparse.Namespace) -> str:
    return f"; {NO_EFFECT['autokill']}" if known.kill or known.autokill else ""
