"""Asking another LLM."""
