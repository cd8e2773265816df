"""Programs that a run is given: those of the YAML, and those that packages define through the group `astuner.services`."""

from astuner.config.model import Ready, Service
from astuner.services.definition import Definition

__all__ = ["Definition", "Ready", "Service"]
