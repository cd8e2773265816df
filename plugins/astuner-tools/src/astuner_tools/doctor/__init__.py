"""What `astuner doctor` checks: one concern per module, each returning rows for one table."""
