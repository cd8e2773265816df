"""The names that Trinity imports where it does not use vLLM."""

__version__ = "0.0.0"
