"""Posts the progress of a run to the webhook of a chat service."""
