"""The importer `ajet`: a YAML of AgentJet or ASTuner is read as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from astuner.settings.config.importers import Translation
from astuner_ajet.importer.keys import HYDRA, ROOTS
from astuner_ajet.importer.translation import ROOT, Translator


class AjetImporter:
    """Claims every file with the root `ajet`, and one with the root `astuner` that says where its defaults are read from."""

    def claims(self, values: Mapping[str, Any]) -> bool:
        """Whether a file is AgentJet's."""
        return any(root in values for root in ROOTS) or (ROOT in values and any(name in values for name in HYDRA))

    def translate(self, values: Mapping[str, Any], *, file: Mapping[str, Any] | None = None) -> Translation:
        """Translate a file, or what the command line sets in it; relative paths start at the working directory."""
        return Translator(values, Path.cwd(), file).translate()
