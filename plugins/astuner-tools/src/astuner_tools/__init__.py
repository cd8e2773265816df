"""Commands around a run: importing a configuration, judging again, warm starts."""
