"""The sandboxes of every install."""
