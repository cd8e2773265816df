"""Engines that every install has."""
