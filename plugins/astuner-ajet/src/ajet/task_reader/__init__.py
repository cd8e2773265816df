"""The base class of readers."""

from ajet.task_reader.task_reader_base import BaseTaskReader

__all__ = ["BaseTaskReader"]
