"""The scripts that start runs on clusters: the address they choose, the key they make, the command they end in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

SCRIPTS = Path(__file__).parents[2] / "scripts" / "cluster"
BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None, reason="bash is not installed")


def choose(text: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", f"source {SCRIPTS / 'slurm.sh'}; choose_address"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.1.0.4\n10.1.0.4 172.17.0.1 \n", "10.1.0.4"),
        ("127.0.1.1\n10.1.0.4 172.17.0.1 \n", "10.1.0.4"),
        ("fe80::1%eth0 2001:db8::4 10.1.0.4\n", "10.1.0.4"),
        ("::1 127.0.0.1\n169.254.3.4 10.1.0.4 2001:db8::4 \n", "10.1.0.4"),
        ("::1\nFE80::1 2001:db8::4 \n", "[2001:db8::4]"),
    ],
    ids=["plain", "Debian", "IPv6 first", "link-local", "IPv6 alone"],
)
def test_the_address_is_one_that_other_nodes_reach(text: str, address: str) -> None:
    assert choose(text).stdout.strip() == address


def test_a_node_with_loopback_addresses_alone_is_an_error_with_the_remedy() -> None:
    ended = choose("127.0.1.1\n\n")
    assert ended.returncode == 1
    assert "set HEAD_ADDRESS. Found: 127.0.1.1" in ended.stderr


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.sh")), ids=lambda path: path.name)
def test_shellcheck_finds_nothing(script: Path) -> None:
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    ended = subprocess.run([shellcheck, "--severity=style", script], capture_output=True, text=True, check=False)
    assert ended.stdout == ""


def write_program(directory: Path, name: str, text: str) -> None:
    path = directory / name
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)


def environment(programs: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "SLURM_"))}
    return kept | {"PATH": os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])}


def test_submitting_without_the_key_is_refused(tmp_path: Path) -> None:
    ended = subprocess.run(
        [SCRIPTS / "submit.sh", "http://head:8265", "verl", "/data/tune.yaml"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "RAY_AUTH_TOKEN is not set" in ended.stderr


def test_a_submitted_run_uses_the_cluster_it_is_on(tmp_path: Path) -> None:
    write_program(tmp_path, "ray", 'printf "%s\\n" "$RAY_AUTH_MODE" "$@"')
    ended = subprocess.run(
        [SCRIPTS / "submit.sh", "http://head:8265", "trinity", "/data/tune.yaml", "--resume"],
        env=environment(tmp_path) | {"RAY_AUTH_TOKEN": "f" * 64},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = ["token", "job", "submit", "--address", "http://head:8265", "--runtime-env-json"]
    expected += ['{"env_vars": {"RAY_ADDRESS": "auto"}}', "--"]
    expected += ["astuner", "run", "--conf", "/data/tune.yaml", "--backbone", "trinity", "--resume"]
    assert ended.stdout.splitlines() == expected


def test_the_job_of_kuberay_has_a_key_and_the_nodes_of_its_command() -> None:
    job = yaml.safe_load((SCRIPTS / "rayjob.yaml").read_text(encoding="utf-8"))
    cluster = job["spec"]["rayClusterSpec"]
    (workers,) = cluster["workerGroupSpecs"]
    (container,) = workers["template"]["spec"]["containers"]
    assert (job["kind"], cluster["authOptions"]) == ("RayJob", {"mode": "token"})
    nodes, gpus = workers["replicas"], container["resources"]["limits"]["nvidia.com/gpu"]
    command = job["spec"]["entrypoint"]
    assert f"nnodes={nodes} " in command
    assert command.endswith(f"n_gpus_per_node={gpus}")


def test_slurm_makes_a_key_and_ends_in_the_run(tmp_path: Path) -> None:
    # One machine is both nodes: its srun runs what it is given, after its own options.
    write_program(tmp_path, "scontrol", "printf 'first\\nsecond\\n'")
    write_program(tmp_path, "srun", 'while [[ $1 == --* ]]; do shift; done\nexec "$@"')
    write_program(tmp_path, "ray", "exit 0")
    # Its one script waits for the nodes.
    write_program(tmp_path, "python", f'[[ $1 == - ]] || exec {sys.executable} "$@"')
    write_program(tmp_path, "astuner", f'printf "%s\\n" "$RAY_ADDRESS" "${{#RAY_AUTH_TOKEN}}" "$@" > {tmp_path}/arguments')
    port = 6401
    variables = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_GPUS_ON_NODE": "3", "HEAD_PORT": str(port), "HEAD_ADDRESS": "127.0.0.1"}
    with subprocess.Popen(
        [SCRIPTS / "slurm.sh", "verl", "tune.yaml", "--resume"],
        env=environment(tmp_path) | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        output, _ = process.communicate()
    assert process.returncode == 0, output
    expected = [f"127.0.0.1:{port}", "64", "run", "--conf", "tune.yaml", "--backbone", "verl"]
    expected += ["--set", "trainer_common.nnodes=2", "--set", "trainer_common.n_gpus_per_node=3", "--resume"]
    assert (tmp_path / "arguments").read_text().splitlines() == expected
