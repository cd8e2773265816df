"""The quickstart: a small project, a tiny model for it, and one tuning from start to end."""
