"""Wraps every service of a package: it has ten minutes to get ready, for the slow disk of a shared machine."""

from __future__ import annotations

from collections.abc import Generator

from attrs import evolve

from astuner import hookimpl
from astuner.shared.services import Definition

LONGEST_S = 600.0


class PatientServices:
    @hookimpl(wrapper=True)
    def astuner_make_service(self) -> Generator[None, Definition, Definition]:
        made = yield
        if made.service is None:
            return made
        return evolve(made, service=evolve(made.service, timeout_s=max(made.service.timeout_s, LONGEST_S)))
