"""A server of environments, for the tests of `reasoning_gym` behind one."""

from environment_servers import serve

__all__ = ["serve"]
