"""Demonstrations: conversations that a model is trained to write like, and the warm start on them."""
