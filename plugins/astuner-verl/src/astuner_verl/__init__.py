"""The backbone `verl`: the same YAML on a distributed trainer."""
