"""Playing task folders: an agent in a sandbox, and then the tests of the task in the same one."""
