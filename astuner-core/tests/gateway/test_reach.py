"""Where the gateway can be reached from: nowhere but this machine, unless its configuration says so."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from attrs import frozen

AGENT = """
import json, sys, urllib.error, urllib.request
url, key = sys.argv[1], sys.argv[2]
body = json.dumps({"messages": [{"role": "user", "content": "hello"}]}).encode()
request = urllib.request.Request(f"{url}/chat/completions", body, {"Authorization": f"Bearer {key}"})
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    with opener.open(request, timeout=5) as response:
        print(json.load(response)["choices"][0]["message"]["content"])
except urllib.error.URLError as error:
    print(f"unreachable: {error.reason}")
"""


async def ask(api: Any, *prefix: str, url: str | None = None) -> str:
    """Return what an agent in a process of its own is answered."""
    command = [*prefix, sys.executable, "-I", "-S", "-c", AGENT, url or api.base_url, api.api_key]
    agent = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        output, _ = await asyncio.wait_for(agent.communicate(), 30)
    finally:
        if agent.returncode is None:
            agent.kill()
    return output.decode().strip()


@pytest.mark.asyncio
async def test_an_agent_in_another_process_needs_the_url_and_the_key_alone(serving: Any) -> None:
    async with serving("yes") as stage:
        assert await ask(stage.recorder.tuner.as_oai_baseurl_apikey()) == "yes"


@pytest.mark.asyncio
async def test_by_default_no_other_address_of_this_machine_answers(serving: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: the address is the one that this machine would be seen under.
        probe.connect(("192.0.2.1", 9))
        outside = probe.getsockname()[0]
    async with serving("yes") as stage:
        url = httpx.URL(stage.gateway.base_url)
        assert url.host == "127.0.0.1"
        for address in {"127.0.0.2", outside} - {"127.0.0.1"}:
            with pytest.raises(OSError):  # noqa: PT011 - refused here, without a route there
                socket.create_connection((address, url.port), timeout=2).close()


@pytest.mark.asyncio
async def test_the_host_of_the_configuration_is_where_it_listens(serving: Any) -> None:
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.2", 0))
    except OSError:
        pytest.skip("this machine has no second loopback address")
    async with serving("yes", gateway={"host": "127.0.0.2"}) as stage:
        api = stage.recorder.tuner.as_oai_baseurl_apikey()
        assert httpx.URL(api.base_url).host == "127.0.0.2"
        assert await ask(api) == "yes"
        assert "unreachable" in await ask(api, url=api.base_url.replace("127.0.0.2", "127.0.0.1"))


@pytest.mark.asyncio
async def test_a_page_that_rebinds_its_name_is_refused_and_the_public_name_is_not(serving: Any, unused_tcp_port: int) -> None:
    options = {"port": unused_tcp_port, "public_url": "https://agents.example"}
    async with serving("yes", gateway=options), httpx.AsyncClient(trust_env=False) as client:
        url = f"http://127.0.0.1:{unused_tcp_port}/health"
        found = [await client.get(url, headers={"host": host}) for host in ("evil.example", "agents.example")]
    assert [answer.status_code for answer in found] == [403, 200]


CLONE_NEWNET = 0x40000000
"""Of <linux/sched.h>; Python has `os.unshare` since 3.12."""


@pytest.fixture
def own_network() -> Iterator[None]:
    """A network namespace for this thread: a cable in the machine's own would break connections of browsers in other tests."""
    if os.geteuid() or not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        pytest.skip("a network namespace takes root, and the commands unshare, nsenter and ip")
    libc = ctypes.CDLL(None)
    with open("/proc/thread-self/ns/net") as before:
        if libc.unshare(CLONE_NEWNET):
            pytest.skip("network namespaces are not permitted here")
        try:
            subprocess.run(("ip", "link", "set", "lo", "up"), timeout=20, check=True)
            yield
        finally:
            assert libc.setns(before.fileno(), CLONE_NEWNET) == 0


@frozen
class Elsewhere:
    """A second network namespace, joined to this one by a cable."""

    here: str
    """The address of this end."""
    enter: tuple[str, ...]
    """What runs a command there."""


@pytest.fixture
def elsewhere(own_network: None) -> Iterator[Elsewhere]:
    # The namespace lives as long as this process, and the cable with it.
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo there && read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    near, far = f"ast{os.getpid() % 10**7}a", f"ast{os.getpid() % 10**7}b"
    enter = ("nsenter", "--net", f"--target={holder.pid}")
    # 198.18.0.0/15 is kept for tests of networks.
    here, there = (f"198.18.{os.getpid() % 250}.{number}" for number in (1, 2))
    steps = [
        ("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", str(holder.pid)),
        ("ip", "address", "add", f"{here}/30", "dev", near),
        ("ip", "link", "set", near, "up"),
        (*enter, "ip", "address", "add", f"{there}/30", "dev", far),
        (*enter, "ip", "link", "set", far, "up"),
    ]
    try:
        if holder.stdout.readline() != b"there\n":
            pytest.skip("network namespaces are not permitted here")
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True, timeout=20, check=False)
            if done.returncode:
                pytest.skip(f"no cable to a network namespace here: {done.stderr.strip()}")
        yield Elsewhere(here, enter)
    finally:
        holder.communicate(b"\n", timeout=20)


@pytest.mark.asyncio
async def test_an_agent_in_another_network_is_given_the_public_url(serving: Any, elsewhere: Elsewhere) -> None:
    with socket.socket() as free:
        free.bind(("0.0.0.0", 0))
        port = free.getsockname()[1]
    gateway = {"host": "0.0.0.0", "port": port, "public_url": f"http://{elsewhere.here}:{port}"}
    async with serving("yes", gateway=gateway) as stage:
        api = stage.recorder.tuner.as_oai_baseurl_apikey()
        assert await ask(api, *elsewhere.enter) == "yes"
        assert "unreachable" in await ask(api, *elsewhere.enter, url=f"http://127.0.0.1:{port}/v1")


@pytest.mark.asyncio
async def test_an_agent_in_another_network_cannot_reach_the_default_host(serving: Any, elsewhere: Elsewhere) -> None:
    async with serving("yes") as stage:
        api = stage.recorder.tuner.as_oai_baseurl_apikey()
        port = httpx.URL(api.base_url).port
        assert "unreachable" in await ask(api, *elsewhere.enter, url=f"http://{elsewhere.here}:{port}/v1")
        assert await ask(api) == "yes"
