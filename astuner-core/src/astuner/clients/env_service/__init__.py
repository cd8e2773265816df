"""Client of the EnvService HTTP protocol: environments that live in a server, each episode in its own instance there."""

from astuner.clients.env_service.client import EnvServiceClient
from astuner.clients.env_service.failures import EnvServiceFailed, Patience
from astuner.clients.env_service.instance import Instance
from astuner.clients.env_service.states import State

__all__ = ["EnvServiceClient", "EnvServiceFailed", "Instance", "Patience", "State"]
