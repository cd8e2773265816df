"""`astuner run --dry-run`: what a run would take."""
