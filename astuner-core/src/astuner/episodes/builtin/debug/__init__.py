"""The backbone for development."""
