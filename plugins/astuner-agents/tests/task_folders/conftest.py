"""The folders hold the tests of tasks, which are not tests of this package."""

collect_ignore = ["folders"]
