"""The engine `vllm`: servers that the run starts, finds warm, or gets by URL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from attrs import evolve

from astuner.contract.protocols import EngineTraits, RunInfo, SettledValue
from astuner.contract.schema import Capabilities, Chunk, Request
from astuner_vllm.generate_request import CONSTRAINTS
from astuner_vllm.options import VllmOptions
from astuner_vllm.server import Say
from astuner_vllm.worker_access import ServerAccess

if TYPE_CHECKING:
    from astuner.settings.memory_estimate import MemoryPlan, MemoryQuestion
    from astuner_vllm.fleet import Fleet
    from astuner_vllm.member import Member


class VllmEngine:
    """Generates on vLLM servers. Lives in the event loop in which `start` is called."""

    Options: ClassVar[type[VllmOptions]] = VllmOptions
    traits = EngineTraits(
        honours={
            "*": ("rollout.n_vllm_engine", "rollout.tensor_model_parallel_size", "rollout.max_num_seqs"),
            "debug": (
                "debug.debug_vllm_port",
                "debug.debug_vllm_seed",
                "debug.debug_tensor_parallel_size",
                "rollout.max_num_seqs",
                "model.dtype",
            ),
        },
        reports_lacks=True,
        settles_values=True,
        plans_memory=True,
        reports_progress=True,
        gives_access=True,
    )

    def __init__(self, options: VllmOptions, run_info: RunInfo) -> None:
        """Use `from_run`."""
        from astuner_vllm.command import trains_adapters

        self._options, self._run_info = options, run_info
        self._fleet: Fleet | None = None
        self._say: Say = _ignore_notice
        self._capabilities = Capabilities(
            weight_updates=True,
            constrained=True,
            constraints=CONSTRAINTS,
            several_models=trains_adapters(run_info),
            max_model_len=run_info.config.rollout.max_model_len,
        )

    @classmethod
    def from_run(cls, options: VllmOptions | None, run_info: RunInfo) -> VllmEngine:
        """Make an engine whose servers are started by `start`."""
        return cls(options or VllmOptions(), run_info)

    @classmethod
    def lacks(cls, options: Mapping[str, Any]) -> str | None:
        """Return why a backbone that takes the first usable engine would skip this one."""
        from astuner_vllm.gpus import has_no_gpu
        from astuner_vllm.installed import explain_absence, explain_version, installed

        if options.get("url"):
            return None
        vllm = installed()
        if vllm is None:
            return explain_absence()
        if (reason := explain_version(vllm)) is not None:
            return reason
        return "its vLLM computes on GPUs, and this machine has none" if not vllm.cpu and has_no_gpu() else None

    @classmethod
    def settle_values(cls, run_info: RunInfo) -> Sequence[SettledValue]:
        """Return how many servers there are, and what each takes; none for external servers."""
        from astuner_vllm.machine_settings import settle_values

        return settle_values(run_info)

    @classmethod
    def plan_memory(cls, run_info: RunInfo, question: MemoryQuestion) -> MemoryPlan:
        """Return what the servers hold; nothing for external servers."""
        from astuner_vllm.memory_plan import plan_memory

        return plan_memory(run_info, question)

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do; for running servers this is known after `start`."""
        return self._capabilities

    def report_to(self, say: Say) -> None:
        """Report the progress of starts and restarts there."""
        self._say = say

    def give_access(self) -> ServerAccess | None:
        """Let workers ask the servers that are up; None if no server is."""
        addresses = tuple(client.describe_address() for client in self._require_fleet().list_clients())
        return ServerAccess(servers=addresses, capabilities=self._capabilities) if addresses else None

    async def start(self) -> None:
        """Start or find the servers, and wait until they are ready."""
        from astuner_vllm.fleet import Fleet
        from astuner_vllm.layout import find_served_dtype, make_attached_members, make_own_members
        from astuner_vllm.weights import MEMORY, remove_leftovers

        remove_leftovers(MEMORY)
        options = self._options
        members = (
            make_attached_members(options, self._run_info)
            if options.url
            else make_own_members(options, self._run_info, self._say)
        )
        fleet = Fleet(
            members=members,
            say=self._say,
            max_restarts=options.max_restarts,
            sync=options.weight_sync,
            directory=self._run_info.directory,
            dtype=find_served_dtype(self._run_info),
        )
        await fleet.open()
        self._fleet = fleet
        try:
            await self._learn(members)
        except BaseException:
            await self.close()
            raise

    def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the tokens of a request as they come. Closing the iterator cancels the request."""
        return self._require_fleet().generate(request)

    async def release(self, session: str) -> None:
        """Forget a session's server; servers evict its keys and values when they need the room."""
        self._require_fleet().release(session)

    async def update_weights(self, ref: Any, version: int) -> None:
        """Let all servers serve the weights of a module (also a peft-wrapped one) or a directory.

        `rollout.vllm.weight_sync` decides what happens to requests under way; their chunks name the weights that sampled them. A
        restarted server gets the weights of `ref` at that time.
        """
        await self._require_fleet().update(ref, version)

    async def pause(self) -> None:
        """Start no new request until `resume`; those under way continue."""
        self._require_fleet().pause()

    async def resume(self) -> None:
        """Start requests again after `pause`."""
        self._require_fleet().resume()

    async def close(self) -> None:
        """End our servers, except one that is kept; requests under way end with an error."""
        if self._fleet is not None:
            fleet, self._fleet = self._fleet, None
            await fleet.close()

    def _require_fleet(self) -> Fleet:
        if self._fleet is None:
            raise RuntimeError("the engine is not running: await engine.start() comes first, and close() is final")
        return self._fleet

    async def _learn(self, members: Sequence[Member]) -> None:
        """Query the servers' abilities."""
        from astuner_vllm.abilities import query_abilities

        found = [await query_abilities(member, self._run_info, attached=bool(self._options.url)) for member in members]
        self._capabilities = evolve(
            self._capabilities,
            weight_updates=all(one.weight_updates for one in found),
            logprobs=all(one.logprobs for one in found),
            max_model_len=min(one.max_model_len for one in found),
        )


def _ignore_notice(text: str, level: Literal["info", "warning"]) -> None:
    """Discard the message."""
