"""The base class of readers."""

from typing import NoReturn

from ajet.task_reader.task_reader_base import BaseTaskReader

__all__ = ["BaseTaskReader"]


def __getattr__(name: str) -> NoReturn:
    """Answer an import of one of AgentJet's own readers, as `RouterTaskReader`."""
    from astuner_ajet.module_names import refuse_name

    refuse_name(__name__, name)
