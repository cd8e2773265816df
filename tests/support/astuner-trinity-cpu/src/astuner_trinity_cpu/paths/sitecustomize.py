"""Read by every Python process that has this directory on its path: modules are changed as they are imported."""

from astuner_trinity_cpu import hooks

hooks.install()
