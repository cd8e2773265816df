"""The workflow whose agent is a program, started as the section `agent` of the YAML says."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from astuner.contract.errors import ConfigError, Problem, ProgramTimeout
from astuner.contract.protocols import (
    ChatModel,
    CommandResult,
    RunInfo,
    Sandboxes,
    SandboxSession,
    SandboxSpec,
    Tuner,
    Workflow,
    WorkflowTraits,
)
from astuner.contract.schema import Message, WorkflowOutput, WorkflowTask
from astuner.settings.config.model import Config
from astuner.settings.config.paths import resolve_path
from astuner_agents.placeholders import Placeholders
from astuner_agents.presets import Preset, settle_program
from astuner_agents.section_checks import find_agent_problems

QUERY = "{query}"
IMAGE_KEY = "docker_image"
"""Where a task's metadata names the image of its sandbox, as data sets of software tasks do."""
SAID_CHARS = 2000
"""How much of the end of the output is in the reason of a failure."""
SHELL_WORDS = re.compile(r"[\s;&|<>()$`\\\"'*?\[\]#~=%!{}]")


class CommandFailed(Exception):
    """The program could not be started, ended with an exit code that is a failure, or was ended by a limit of its sandbox."""


class CommandWorkflow(Workflow):
    """Opens a sandbox, writes its files, runs the program, and collects what it has left.

    The output's metadata holds `final_answer` (the end of stdout), `exit_code`, `stderr` (its end) and `files` (texts by path).

    A class for tasks that need more of their sandbox extends `describe_sandbox`, `prepare`, `write_query`, `run_program`,
    `check_result` and `conclude`, which are called in this order.
    """

    traits = WorkflowTraits(runs_in_sandboxes=True, checks_config=True)

    def __init__(self, run_info: RunInfo, sandboxes: Sandboxes, program: Preset) -> None:
        """`program` is what the preset and the section `agent` make together."""
        self.agent, self._config_dir = run_info.config.agent, run_info.config_dir
        self.sandboxes, self._program = sandboxes, program

    @classmethod
    def find_problems(cls, config: Config, config_dir: Path) -> Iterator[Problem]:
        """Yield what is wrong in the section `agent`."""
        return find_agent_problems(config, config_dir)

    @classmethod
    def with_sandboxes(cls, run_info: RunInfo, sandboxes: Sandboxes) -> CommandWorkflow:
        """Return the workflow of an episode; raises `ConfigError` if the program does not exist in the sandboxes."""
        program = settle_program(run_info.config)
        _check_program(program, run_info, sandboxes)
        return cls(run_info, sandboxes, program)

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play one episode."""
        model = tuner.as_oai_baseurl_apikey()
        session = await self.sandboxes.open(self.describe_sandbox(workflow_task, model))
        try:
            await self.prepare(workflow_task, session)
            output = await self._play(workflow_task, model, session)
            return await self.conclude(workflow_task, session, output)
        finally:
            await session.close()

    def describe_sandbox(self, workflow_task: WorkflowTask, model: ChatModel) -> SandboxSpec:
        """Return what the episode needs of its sandbox."""
        image = workflow_task.task.metadata.get(IMAGE_KEY)
        if image is not None and (not isinstance(image, str) or not image):
            raise CommandFailed(f"the task's metadata has {IMAGE_KEY}: {image!r:.80}; it must be the name of an image")
        return SandboxSpec(episode_id=workflow_task.episode_id, gateway_url=model.base_url, image=image)

    async def prepare(self, workflow_task: WorkflowTask, session: SandboxSession) -> None:
        """Do what comes before the program and its files; by default nothing."""

    def write_query(self, workflow_task: WorkflowTask, session: SandboxSession) -> str:
        """Return the task as the program gets it."""
        return _write_messages(workflow_task.task.messages)

    async def run_program(
        self, workflow_task: WorkflowTask, session: SandboxSession, command: Sequence[str], env: Mapping[str, str], stdin: str
    ) -> CommandResult:
        """Run the program under the limits of the section `agent`."""
        agent = self.agent
        return await session.run(
            command, env=env, stdin=stdin, timeout_s=agent.timeout_s, max_output_bytes=agent.max_output_bytes
        )

    async def conclude(self, workflow_task: WorkflowTask, session: SandboxSession, output: WorkflowOutput) -> WorkflowOutput:
        """Return the output of the episode; the program has ended, and its sandbox is still open."""
        return output

    async def _play(self, workflow_task: WorkflowTask, model: ChatModel, session: SandboxSession) -> WorkflowOutput:
        agent, task = self.agent, workflow_task.task
        query = self.write_query(workflow_task, session)
        base_url = session.gateway_url or model.base_url
        values = {
            "query": query,
            "prompt_file": agent.prompt_file,
            "workdir": session.workdir,
            "home": session.home,
            "base_url": base_url,
            "anthropic_base_url": base_url.removesuffix("/v1"),
            "api_key": model.api_key,
            "model": model.model,
        }
        filled = Placeholders(values, {**task.metadata, "task_id": task.task_id})
        await self._write_files(session, filled, query)
        env = {**_list_model_variables(values), **{name: filled.fill(text) for name, text in self._program.env.items()}}
        try:
            stdin = query if self._program.prompt == "stdin" else ""
            result = await self.run_program(workflow_task, session, self._make_command(filled), env, stdin)
        except OSError as error:
            raise CommandFailed(f"the program cannot be started: {error.strerror}: {error.filename}") from error
        self.check_result(result)
        collected = await session.read_files(agent.collect, max_bytes=agent.max_collect_bytes) if agent.collect else {}
        return WorkflowOutput(
            metadata={
                "final_answer": result.stdout[-agent.max_answer_chars :].strip(),
                "exit_code": result.exit_code,
                "stderr": result.stderr[-SAID_CHARS:],
                "files": {path: content.decode(errors="replace") for path, content in collected.items()},
            },
            log_metrics={"command_s": result.duration_s, "nonzero_exits": float(result.exit_code != 0)},
        )

    async def _write_files(self, session: SandboxSession, filled: Placeholders, query: str) -> None:
        files: dict[str, str | bytes] = {}
        for inside, outside in self.agent.copy.items():
            files |= await asyncio.to_thread(_read_copied, inside, resolve_path(outside, self._config_dir))
        files |= {filled.fill(path): filled.fill(text) for path, text in self._program.files.items()}
        if self._program.prompt == "file":
            files[self.agent.prompt_file] = query
        await session.write_files(files)

    def _make_command(self, filled: Placeholders) -> Sequence[str]:
        command, is_argument = self._program.command, self._program.prompt == "argument"
        if isinstance(command, str):
            line = f"{command} {QUERY}" if is_argument and QUERY not in command else command
            return ["/bin/sh", "-c", filled.fill_shell(line)]
        words = [*command, QUERY] if is_argument and not any(QUERY in word for word in command) else command
        return [filled.fill(word) for word in words]

    def check_result(self, result: CommandResult) -> None:
        """Raise if the episode cannot be judged."""
        agent = self.agent
        if result.timed_out:
            raise ProgramTimeout(f"the program took longer than agent.timeout_s = {agent.timeout_s:g} s{_quote_end(result)}")
        if result.killed_by is not None:
            limit = {
                "output": f"wrote more than agent.max_output_bytes = {agent.max_output_bytes} bytes",
                "disk": "took more room on disk than its sandbox allows (max_disk_bytes)",
                "processes": "started more processes than its sandbox allows (max_processes)",
                "memory": "took more memory than its sandbox allows (max_memory_bytes)",
            }[result.killed_by]
            raise CommandFailed(f"the program {limit}, and was ended{_quote_end(result)}")
        if result.exit_code != 0 and agent.nonzero_exit == "fail":
            raise CommandFailed(f"the program ended with exit code {result.exit_code}{_quote_end(result)}")


def _check_program(program: Preset, run_info: RunInfo, sandboxes: Sandboxes) -> None:
    name = _find_program_name(program.command)
    if name is None or sandboxes.find_program(name) is not False:
        return
    if isinstance(program.command, str) and _is_shell_word(name):
        return
    agent = run_info.config.agent
    remedy = f"install it: {program.install}" if program.install else "install it, or give its path"
    if suggested := sandboxes.suggest_program(name):
        remedy = f"{suggested}: {program.install}" if program.install else suggested
    key = "astuner.agent.command" if agent.command else "astuner.agent.preset"
    message = f"there is no program {name!r} on the PATH of the sandboxes; {remedy}."
    raise ConfigError([Problem(key=key, message=message, file=run_info.conf)])


def _find_program_name(command: str | Sequence[str]) -> str | None:
    """Return the first word; None where the shell decides what it is."""
    if not isinstance(command, str):
        return command[0] if command and "{" not in command[0] else None
    try:
        word = next(iter(shlex.split(command)), "")
    except ValueError:
        return None
    return None if not word or SHELL_WORDS.search(word) else word


def _is_shell_word(name: str) -> bool:
    """Whether `/bin/sh` itself knows a word: `cd`, `if`, `export`."""
    import subprocess

    words = ["/bin/sh", "-c", 'command -v "$1" >/dev/null', "sh", name]
    return subprocess.run(words, env={"PATH": "/nonexistent"}, capture_output=True, check=False).returncode == 0


def _list_model_variables(values: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables by which most programs find their model."""
    return {
        "OPENAI_BASE_URL": values["base_url"],
        "OPENAI_API_BASE": values["base_url"],
        "OPENAI_API_KEY": values["api_key"],
        "OPENAI_MODEL": values["model"],
        "ANTHROPIC_BASE_URL": values["anthropic_base_url"],
        "ANTHROPIC_API_KEY": values["api_key"],
    }


def _read_copied(inside: str, outside: Path) -> Mapping[str, bytes]:
    if not outside.is_dir():
        return {inside: outside.read_bytes()}
    found = (Path(folder) / name for folder, _, names in os.walk(outside) for name in names)
    return {f"{inside}/{path.relative_to(outside)}": path.read_bytes() for path in found}


def _write_messages(messages: Sequence[Message]) -> str:
    return "\n\n".join(_list_texts(messages))


def _list_texts(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        content = message.get("content")
        parts = [{"text": content}] if isinstance(content, str) else content or ()
        text = "\n".join(part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str))
        if text:
            yield text


def _quote_end(result: CommandResult) -> str:
    said = (result.stderr.strip() or result.stdout.strip())[-SAID_CHARS:]
    return f"; the end of its output: {said}" if said else ""
