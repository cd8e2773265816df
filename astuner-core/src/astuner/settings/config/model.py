"""The typed configuration: the content of the YAML's root section `astuner`, every field with its default.

Larger parts are in neighbouring modules: `rollout`, `trainer`, `components`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import and_, ge, gt, le, optional

from astuner.settings.config.agent import Agent, Sandbox
from astuner.settings.config.components import ContextTracker, OpenSection, TaskJudge, TaskReader
from astuner.settings.config.env_variables import Environment
from astuner.settings.config.rollout import Rollout
from astuner.settings.config.trainer import TrainerCommon

ToolCallFormat = Literal[
    "auto",
    "hermes",
    "qwen_xml",
    "seed",
    "functionary",
    "glm",
    "hunyuan",
    "minicpm",
    "llama3",
    "mistral",
    "granite",
    "gigachat",
    "json_list",
    "internlm",
    "cohere",
    "apertus",
    "xlam",
    "python",
    "lfm2",
    "gemma",
    "deepseek",
    "deepseek_v32",
    "deepseek_v4",
    "kimi",
    "kimi_k3",
    "solar",
    "minimax",
    "minimax_m3",
    "harmony",
]


@frozen(kw_only=True)
class Adapter:
    """LoRA adapters that one target alone has, on the model of the run. What is not set is as in `model`."""

    lora_rank: int | None = field(default=None, validator=optional(ge(1)))
    lora_alpha: float | None = field(default=None, validator=optional(gt(0)))
    target_modules: str | tuple[str, ...] | None = None


@frozen(kw_only=True)
class Opponent:
    """Earlier weights of the run, which answer the calls of one target and are not trained on them."""

    checkpoint: int | Literal["latest"] = "latest"
    """A step at which the run saves, 0 for the weights at its start; `latest` moves on with each checkpoint. Until it is there,
    the weights at the start answer."""
    adapter: str | None = None
    """Whose weights, in a run with `model.adapters`."""


@frozen(kw_only=True)
class Model:
    """The model to be trained."""

    path: str = ""
    """A directory in transformers format, relative to the YAML and made absolute at load, or a Hugging Face id; required."""
    dtype: Literal["float32", "bfloat16", "auto"] = "auto"
    """Precision of the weights; `auto` is the one that the checkpoint was saved in."""
    lora_rank: int = field(default=0, validator=ge(0))
    """Rank of the LoRA adapters; 0 trains all weights."""
    lora_alpha: float = field(default=16.0, validator=gt(0))
    """Scale of the adapters: their update is multiplied by `lora_alpha / lora_rank`."""
    target_modules: str | tuple[str, ...] = "all-linear"
    """Which modules get adapters: names, or `all-linear`."""
    adapters: Mapping[str, Adapter] = field(factory=dict)
    """Several models in one run: adapters that each of these targets has for itself. Calls of other targets are answered by the
    model without adapters, and not trained."""
    opponents: Mapping[str, Opponent] = field(factory=dict)
    """Targets whose calls are answered by earlier weights of the run, and not trained."""
    chat_template: str | None = None
    """A Jinja file, relative to the YAML, or its text, in place of the template of the model's tokenizer: it renders, is saved
    with checkpoints, and is what `astuner export` writes. The text is kept with the run."""
    tool_call_format: ToolCallFormat = "auto"
    """How the model writes tool calls; `auto` is the way in which its chat template shows them."""
    reasoning: Literal["auto", "split", "keep"] = "auto"
    """Where reasoning at the start of an answer (`<think>…</think>`) goes: `split` into `reasoning_content`, `keep` as
    written in `content`; `auto` splits if the model's chat template knows reasoning."""
    tools_in_prompt: Literal["auto", "template", "system"] = "auto"
    """Who describes the offered tools to the model: `template` its chat template, `system` a text in the system message;
    `auto` uses the text if the template does not show tools."""
    late_system_messages: Literal["auto", "template", "user"] = "auto"
    """What becomes of a system or developer message in the middle of a conversation: `template` leaves it to the chat
    template, which may refuse it or move it to the front; `user` makes it a user message in its place; `auto` does so if
    the template would not show it there. `auto` and `user` join several at the beginning if the template takes only one."""

    unclosed_calls: Literal["text", "read"] = "text"
    """What becomes of a tool call whose arguments are complete at the end of an answer, but whose closing marker is missing:
    `text` leaves it in the content and counts it as malformed; `read` takes it for a call, as some servers do."""

    streamed_calls: Literal["whole", "pieces"] = "whole"
    """How a tool call is streamed: `whole` sends it once it is certain to be one, and leaves a broken one in the content;
    `pieces` sends its arguments as the model writes them, so that a call whose arguments break off or are not valid JSON stays
    a call with these arguments, in answers that are not streamed too. Either way it counts as malformed."""

    @property
    def lora_ranks(self) -> tuple[int, ...]:
        """The rank of each model that is trained; empty if all weights are."""
        several = tuple(one.lora_rank or self.lora_rank for one in self.adapters.values())
        return several or ((self.lora_rank,) if self.lora_rank else ())

    @property
    def rendering(self) -> dict[str, Any]:
        """The options of `astuner.model.rendering.load_renderer`."""
        names = ("tool_call_format", "reasoning", "tools_in_prompt", "late_system_messages", "unclosed_calls", "streamed_calls")
        return {name: getattr(self, name) for name in ("chat_template", *names)}


@frozen(kw_only=True)
class Data(OpenSection):
    """Lengths in tokens, the batch size, and which tasks are trained."""

    max_prompt_length: int = field(default=3000, validator=ge(1))
    """Longest first prompt of an episode."""
    max_response_length: int = field(default=15000, validator=ge(1))
    """Longest rest of an episode: what the model samples and what the environment answers."""
    train_batch_size: int = field(default=32, validator=ge(1))
    """Tasks per training step; each is played `rollout.num_repeat` times."""
    shuffle: bool = True
    """Train the tasks in a random order, another one in each epoch; False takes them as the reader yields them. Tasks that do
    not fill the last batch of an epoch are left out of it; with False they begin the next epoch."""
    sampler: str = "uniform"
    """Chooses the tasks of each step; `uniform` takes them epoch by epoch. Its options are in a section of its name, here."""


@frozen(kw_only=True)
class Debug:
    """Settings that only the backbone `debug` reads."""

    debug_max_parallel: int = field(default=16, validator=ge(1))
    """Episodes at the same time."""
    debug_first_n_tasks: int = field(default=2, validator=ge(1))
    """How many tasks are played."""
    debug_vllm_port: int = field(default=18000, validator=and_(ge(1), le(65535)))
    """Port of the inference server that is used or started."""
    debug_vllm_seed: int = field(default=12345, validator=ge(0))
    """Seed of its sampling."""
    debug_tensor_parallel_size: int = field(default=4, validator=ge(1))
    """GPUs that it is spread over."""


@frozen(kw_only=True)
class Plugins:
    """Which plugins take part."""

    disabled: tuple[str, ...] = ()
    """Distributions or entry points (`dist/name`) that are left out."""
    required: tuple[str, ...] = ()
    """Distributions without which the run does not start."""
    options: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    """Options of an extension of the group `astuner.hooks`, by its entry-point name."""


@frozen(kw_only=True)
class Ready:
    """The signs that a service is up, all of which must appear; without any, it only has to be alive.

    If the port and the URL answer before anything was started, the running service is used, and never ended.
    """

    port: int | None = field(default=None, validator=optional(and_(ge(1), le(65535))))
    """A TCP port of this machine that accepts connections."""
    url: str | None = None
    """An HTTP address that answers with a status below 400."""
    log: str | None = None
    """A regular expression that a line of its output matches."""


@frozen(kw_only=True)
class Service:
    """A program that the run starts before it reads its tasks, when `--with` names it, and ends when it is over."""

    command: str | tuple[str, ...]
    """A text is a command line for the shell (`/bin/sh`), a list the words of a command without one."""
    cwd: str | None = None
    """Where it runs, relative to the YAML; the YAML's directory when not given."""
    env: Mapping[str, str] = field(factory=dict)
    """Environment variables on top of the run's own."""
    ready: Ready = field(factory=Ready)
    timeout_s: float = field(default=120.0, validator=gt(0))
    """How long it may take to be ready; the run fails after that, with the last lines of its log."""
    keep: bool = False
    """Leave it running after the run. The next run with the same command, directory and environment finds it again;
    `astuner stop NAME` ends it."""


@frozen(kw_only=True)
class Gateway:
    """The OpenAI-compatible server that agents talk to."""

    host: str = "127.0.0.1"
    """Address it listens on; a public one when agents run on other machines."""
    port: int = field(default=0, validator=and_(ge(0), le(65535)))
    """0 picks a free port."""
    public_url: str | None = None
    """The address to give to agents in containers or on other machines, where it differs."""
    max_body_bytes: int | None = field(default=None, validator=optional(gt(0)))
    """Largest request that is accepted; by default 1 MiB and 32 bytes for each token of the context, at most 32 MiB."""
    max_connections: int = field(default=4096, validator=gt(0))
    """Open connections at a time; further clients wait. Fewer if the limit of open files (`ulimit -n`) is low."""
    cors_origins: tuple[str, ...] = ()
    """Origins of web pages whose agents may call it, such as `http://localhost:5173`; `*` is every page. None by default."""
    embeddings: str | None = None
    """Address of an OpenAI-compatible API, with `/v1`, that answers `POST /v1/embeddings` of agents; null refuses them."""
    embeddings_key_env: str | None = None
    """The environment variable that holds the key of `embeddings`; null sends none."""


def _check_directory_name(_: Any, attribute: Attribute[Any], value: str) -> None:
    if not value or value in (".", "..") or any(mark in value for mark in "/\\\0"):
        raise ValueError(f"'{attribute.name}' names a directory, so it must not be empty and must not contain / or \\: {value!r}")


@frozen(kw_only=True)
class Config:
    """A whole configuration."""

    project_name: str = "astuner_default_project"
    """Groups experiments in the loggers that know projects."""
    experiment_name: str = field(default="read_yaml_name", validator=_check_directory_name)
    """Names the run; `read_yaml_name` takes the name of the YAML without its ending."""
    experiment_dir: str = "auto"
    """The run directory, from where astuner is started; `auto` is `launcher_record/{experiment_name}`. Made absolute at load."""
    backbone: str = "debug"
    """The name of an installed backbone, which trains."""
    model: Model = field(factory=Model)
    data: Data = field(factory=Data)
    rollout: Rollout = field(factory=Rollout)
    task_reader: TaskReader = field(factory=TaskReader)
    task_judge: TaskJudge = field(factory=TaskJudge)
    context_tracker: ContextTracker = field(factory=ContextTracker)
    environment: Environment = field(factory=Environment)
    agent: Agent = field(factory=Agent)
    sandbox: Sandbox = field(factory=Sandbox)
    debug: Debug = field(factory=Debug)
    trainer_common: TrainerCommon = field(factory=TrainerCommon)
    plugins: Plugins = field(factory=Plugins)
    workflow: Mapping[str, Any] = field(factory=dict)
    """Settings of your workflow, under any names and of any shape: it finds them in `workflow_task.settings`."""
    services: Mapping[str, Service] = field(factory=dict)
    """Programs for runs, by names of your choice: only `astuner run --with NAME` starts one."""
    gateway: Gateway = field(factory=Gateway)
    seed: int = field(default=42, validator=ge(0))
    """Every random number of the run comes from it."""
    execute_test: bool = False
    """Reserved for automated tests of other implementations; accepted and without effect here."""
    execute_testing_lambda: str = ""
    """Reserved like `execute_test`."""
