"""Environments for astuner, and the server that serves any environment over the EnvService protocol."""
