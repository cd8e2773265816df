"""Programs that a run uses: those of the YAML, and those that packages define in the group `astuner.services`."""

from astuner.config.model import Ready, Service
from astuner.services.definition import Definition

__all__ = ["Definition", "Ready", "Service"]
