"""Tasks of coding agents from folders: those of Harbor, and the older ones of Terminal-Bench."""
