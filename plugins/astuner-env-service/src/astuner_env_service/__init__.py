"""Environments that live in servers: their tasks, and the clients that play them."""
