"""The one YAML of a run: its typed model, and everything that reads, checks and shows it.

`model` says what a configuration is, `loading` makes one from a file, `honour` compares it with what a backbone acts on,
`show` prints it. Nothing is imported here, so that `astuner.config.model` stays as light as attrs.
"""
