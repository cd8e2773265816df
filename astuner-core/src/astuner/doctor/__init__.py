"""What `astuner doctor` looks at: one concern per module, each returning rows for one table."""
