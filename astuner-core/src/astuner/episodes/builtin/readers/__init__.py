"""Readers that every install has."""
