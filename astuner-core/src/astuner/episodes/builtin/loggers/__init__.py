"""Loggers that every install has."""
