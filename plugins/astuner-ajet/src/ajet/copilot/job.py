"""A run from Python: `AgentJetJob(…).set_workflow(…).set_data(…).tune()`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ajet.utils.dynamic_import import cls_to_path

if TYPE_CHECKING:
    from astuner import Run

READERS = {"hf": "huggingface_dat_repo", "huggingface": "huggingface_dat_repo", "dummy": "random_dummy"}


class Section:
    """A section of the configuration, whose keys are attributes; reading one that is not set makes a section of it."""

    def __getattr__(self, name: str) -> Any:
        """Make a section."""
        if name.startswith("__"):
            raise AttributeError(name)
        section = Section()
        setattr(self, name, section)
        return section

    def to_dict(self) -> dict[str, Any]:
        """Return what was set; sections in which nothing was set are left out."""
        found = {name: value.to_dict() if isinstance(value, Section) else value for name, value in vars(self).items()}
        return {name: value for name, value in found.items() if value != {}}


class AgentJetJob:
    """Writes a configuration and runs it."""

    def __init__(
        self,
        backbone: str = "trinity",
        model: str = "Qwen/Qwen2.5-7B-Instruct",
        n_gpu: int = 8,
        algorithm: str = "grpo",
        n_gpu_for_infer: int | None = None,
    ) -> None:
        """`n_gpu_for_infer` of the GPUs sample, on the backbone trinity."""
        self.config = Section()
        ajet = self.config.ajet
        ajet.backbone, ajet.model.path = backbone, model
        ajet.trainer_common.n_gpus_per_node, ajet.trainer_common.algorithm.adv_estimator = n_gpu, algorithm
        if n_gpu_for_infer is not None:
            ajet.rollout.n_vllm_engine = n_gpu_for_infer

    def set_workflow(self, workflow: Any, ensure_reward_in_workflow: bool = False) -> AgentJetJob:
        """Name the workflow, by its place or as a class."""
        self.config.ajet.rollout.user_workflow = cls_to_path(workflow)
        return self

    def set_data(
        self,
        type: str,  # noqa: A002 - users' code gives it by this name
        dataset_path: str = "",
        training_split: str = "train",
        validation_split: str = "test",
    ) -> AgentJetJob:
        """Choose the reader: `hf` with a data set, or `random_dummy`. Other readers are set in `config.ajet.task_reader`."""
        reader = self.config.ajet.task_reader
        reader.type = READERS.get(type, type)
        if reader.type == "huggingface_dat_repo":
            section = reader.huggingface_dat_repo
            section.dataset_path, section.training_split, section.validation_split = (
                dataset_path,
                training_split,
                validation_split,
            )
        elif reader.type != "random_dummy":
            raise ValueError(f"type is {type!r}; it must be 'hf' or 'random_dummy'. Set others in config.ajet.task_reader")
        return self

    def dump_job_as_yaml(self, yaml_path: str) -> str:
        """Write the configuration, and return its path."""
        import yaml

        path = Path(yaml_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(self.config.to_dict(), sort_keys=False), encoding="utf-8")
        return yaml_path

    def tune(self) -> Run:
        """Run it from the working directory, and return the run when it is over; raises an `AstunerError` if it failed."""
        import astuner

        # Modules and files that it names start where the YAML is.
        with tempfile.NamedTemporaryFile(suffix=".yaml", prefix="agentjet_job_", dir=Path.cwd()) as file:
            return astuner.run(self.dump_job_as_yaml(file.name))


AstunerJob = AgentJetJob
"""Its older name."""
