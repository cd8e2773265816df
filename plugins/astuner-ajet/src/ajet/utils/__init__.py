"""Breakpoints, and what users' code takes from here."""
