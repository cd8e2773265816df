"""What holds for every test of the repository."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("hypothesis") is not None:
    from hypothesis import HealthCheck, settings

    # How long an example takes says something of the machine and its other work, and nothing of the code.
    settings.register_profile("astuner", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("astuner")
