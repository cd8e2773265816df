"""What verl lacks on a machine without an accelerator: a platform, an engine, a worker. Used only there."""
