"""The process that leads a run: starts it, logs what the backbone reports, obeys signals, ends it."""
