"""The loss on its way to Ray's processes, which cannot import a file that the user named."""

from __future__ import annotations

import pickle
import sys
from contextlib import ExitStack
from pathlib import Path

from attrs import frozen

from astuner.contract.errors import PluginError
from astuner.contract.protocols import Candidate
from astuner.runs.training import LossOptions


@frozen(kw_only=True)
class PackedLoss:
    """The options of a run's loss, with the code of a loss that a path names."""

    pickled: bytes
    directory: Path | None = None
    """Where that code finds the modules that it imports, on machines that see it."""

    @classmethod
    def of(cls, options: LossOptions, candidate: Candidate | None = None) -> PackedLoss:
        """Pack options whose loss was made of a candidate; raises `PluginError` for one that cannot be sent."""
        from ray import cloudpickle

        named = candidate is not None and candidate.source == "path"
        try:
            with ExitStack() as stack:
                if named:
                    module = sys.modules[type(options.policy_loss).__module__]
                    cloudpickle.register_pickle_by_value(module)
                    stack.callback(cloudpickle.unregister_pickle_by_value, module)
                pickled = cloudpickle.dumps(options)
        except Exception as error:  # or what the loss's own code raises
            blame = "the loss" if candidate is None else candidate.blame
            raise PluginError(f"{blame} cannot be sent to verl's workers, because it does not pickle: {error}") from error
        return cls(pickled=pickled, directory=candidate.config_dir if candidate is not None and named else None)

    def unpack(self) -> LossOptions:
        """Return the options, in any process of the run."""
        if self.directory is not None and str(self.directory) not in sys.path:
            sys.path.append(str(self.directory))
        options: LossOptions = pickle.loads(self.pickled)
        return options
