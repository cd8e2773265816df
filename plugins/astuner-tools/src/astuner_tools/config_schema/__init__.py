"""The JSON Schema of a configuration, from the typed model and the options of the installed components."""
