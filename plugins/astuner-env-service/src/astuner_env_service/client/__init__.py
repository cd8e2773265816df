"""Client of the EnvService HTTP protocol: environments that live in a server, each episode in its own instance there."""

from astuner_env_service.client.client import EnvServiceClient
from astuner_env_service.client.failures import EnvServiceFailed, Patience
from astuner_env_service.client.instance import Instance
from astuner_env_service.client.states import State

__all__ = ["EnvServiceClient", "EnvServiceFailed", "Instance", "Patience", "State"]
