"""What installed components add to the JSON Schema of the YAML: their names, and the sections of their `Options`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field

from astuner.contract.protocols import Candidate
from astuner.contract.protocols.traits import find_options_class
from astuner.settings.plugins.catalog import Catalog
from astuner_tools.config_schema.json_types import Schema, build_class_schema, build_free_section


@define(eq=False)
class InstalledComponents:
    """The components of a catalog, each imported once, and only for its options."""

    catalog: Catalog
    on_broken: Callable[[str], None]
    """Called with a message about a component that cannot be described; its section then accepts anything."""
    _described: dict[Candidate, Schema] = field(factory=dict)

    def list_names(self, kind: str) -> list[str]:
        """Return the names of the components of a kind in a YAML; `dist/name` where two packages offer one name."""
        return list(self.catalog.map_spellings(kind))

    def build_sections(self, kind: str) -> Mapping[str, Schema]:
        """Return the schemas of the sections of a kind, by the key of each."""
        spellings = self.catalog.map_spellings(kind)
        shared = {each.name: build_free_section() for spelling, each in spellings.items() if spelling != each.name}
        return {**shared, **{spelling: self._get_section(each) for spelling, each in spellings.items()}}

    def _get_section(self, candidate: Candidate) -> Schema:
        if candidate not in self._described:
            self._described[candidate] = self._describe(candidate)
        return self._described[candidate]

    def _describe(self, candidate: Candidate) -> Schema:
        from astuner.contract.errors import PluginError
        from astuner.settings.plugins.drivers import load

        about: Schema = {"description": f"Options of the {candidate.kind} '{candidate.name}' from {candidate.provider}."}
        try:
            options = find_options_class(load(candidate))
            closed = {**build_free_section(), "additionalProperties": False}
            return {**about, **(closed if options is None else build_class_schema(options))}
        except PluginError as error:
            self.on_broken(str(error))
        except Exception as error:  # noqa: BLE001 - the boundary for a third party's class: it may be anything
            self.on_broken(f"{candidate.blame}: its Options cannot be described: {type(error).__name__}: {error}")
        return {**about, **build_free_section()}
