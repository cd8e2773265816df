"""What keeps a task from being played or checked. Each ends its episode, with the reason."""


class TaskNotPlayable(Exception):
    """The task needs what the sandbox does not have."""


class VerificationFailed(Exception):
    """The tests gave no reward. That is not a reward of 0."""
