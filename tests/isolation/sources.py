"""Source texts of the plugins that the scenarios install."""

from __future__ import annotations

JUDGE = """
class Strict:
    def compute_reward(self, workflow_task, workflow_output):
        return float(workflow_output.metadata["final_answer"] == "4"), True
"""

BROKEN = "import acme_engine_that_is_not_there\n"

MISSPELT = """
from astuner import hookimpl

class Audit:
    @hookimpl
    def astuner_episode_finishd(self, episode): ...
"""

LISTENER = """
import sys

from astuner import hookimpl

class Audit:
    @hookimpl
    def astuner_episode_finished(self, episode):
        print(f"heard {episode.task.task_id}", file=sys.stderr)
"""

RAISING_LISTENER = """
from astuner import hookimpl

class Loud:
    @hookimpl
    def astuner_episode_finished(self, episode):
        raise KeyError("channel")
"""

RAISING_DECISION = """
from astuner import hookimpl

class Decide:
    @hookimpl
    def astuner_make_judge(self, candidate, options, run_info):
        raise RuntimeError("no licence")
"""

COMMAND = """
import click

@click.command()
def hello():
    click.echo("hello")
"""
