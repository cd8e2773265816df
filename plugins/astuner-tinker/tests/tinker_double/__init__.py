"""A double of the Tinker SDK's Python interface that trains a real tiny model with LoRA, in this process, on the CPU.

`ServiceDouble` stands for `tinker.ServiceClient`; `Behaviour` decides in what the server behind it differs from others. All that
is saved lies on disk, so that another process continues from it, and `requests.jsonl` has what was paid.
"""

from tinker_double.behaviour import Behaviour
from tinker_double.sampling import SamplingClientDouble
from tinker_double.service import ServiceDouble
from tinker_double.training import TrainingClientDouble

__all__ = ["Behaviour", "SamplingClientDouble", "ServiceDouble", "TrainingClientDouble"]
