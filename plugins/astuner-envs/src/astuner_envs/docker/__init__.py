"""The sandbox `docker`: one container for each episode, without a network, from an image of the YAML or of the task."""

from astuner_envs.docker.options import DockerOptions
from astuner_envs.docker.sandboxes import DockerSandboxes

__all__ = ["DockerOptions", "DockerSandboxes"]
