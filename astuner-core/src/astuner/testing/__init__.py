"""The kit for authors of plugins: distributions on disk, made-up episodes."""
