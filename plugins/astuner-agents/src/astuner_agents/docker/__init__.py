"""The sandbox `docker`: one container for each episode, without a network, from an image of the YAML or of the task."""

from astuner_agents.docker.options import DockerOptions
from astuner_agents.docker.sandboxes import DockerSandboxes

__all__ = ["DockerOptions", "DockerSandboxes"]
