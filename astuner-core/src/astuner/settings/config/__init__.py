"""The one YAML of a run: its typed model, and everything that reads, checks and shows it.

`model` defines a configuration, `loading` reads one from a file, `key_coverage` compares it with a backbone,
`show` prints it. Nothing is imported here, so that `astuner.settings.config.model` stays as light as attrs.
"""
