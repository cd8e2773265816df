"""`astuner config explain`: where each value comes from, and what acts on it."""
