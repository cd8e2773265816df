"""Only the browser that opened the address is answered, and no page of another site."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from astuner.contract.errors import UsageError
from astuner_logview.server.access import HEADERS, MOST_TOKENS, Access
from astuner_logview.server.address import read_public_url

ORIGIN = "http://127.0.0.1:8123"
KEY = "a key for other machines"
Client = httpx.AsyncClient
OpenClient = Callable[[Access], Client]


@pytest.fixture
def client(open_client: OpenClient, access: Access) -> Client:
    return open_client(access)


async def open_pages(client: Client, access: Access) -> None:
    answer = await client.get(f"/?open={access.make_token()}")
    assert answer.status_code == 303


@pytest.mark.asyncio
async def test_the_address_becomes_a_cookie_that_scripts_and_other_sites_do_not_have(client: Client, access: Access) -> None:
    answer = await client.get(f"/?open={access.make_token()}")
    assert (answer.status_code, answer.headers["location"]) == (303, "./")
    name, _, attributes = answer.headers["set-cookie"].partition("=")
    assert name == "astuner_logview_8123"
    assert {"HttpOnly", "SameSite=strict"} <= set(attributes.split("; "))
    assert "Path=" not in attributes, "a browser then keeps it for the path it has asked for, below a proxy too"
    assert (await client.get("/api/x")).json() == {"path": "/api/x"}


@pytest.mark.asyncio
async def test_an_address_opens_once(client: Client, access: Access, open_client: OpenClient) -> None:
    address = f"/?open={access.make_token()}"
    await client.get(address)
    other = await open_client(access).get(address)
    assert other.status_code == 403
    assert "astuner logview" in other.text
    assert "set-cookie" not in other.headers


@pytest.mark.asyncio
async def test_the_browser_that_opened_it_may_open_it_again(client: Client, access: Access) -> None:
    address = f"/?open={access.make_token()}"
    await client.get(address)
    again = await client.get(address)
    assert (again.status_code, again.headers["location"]) == (303, "./")


@pytest.mark.asyncio
@pytest.mark.parametrize("token", ["", "x", "é", "%ff%fe"])
async def test_a_foreign_token_opens_nothing(client: Client, access: Access, token: str) -> None:
    access.make_token()
    answer = await client.get(f"/?open={token}")
    assert answer.status_code == 403
    assert (await client.get("/api/x")).status_code == 403


@pytest.mark.asyncio
async def test_looking_at_the_headers_of_an_address_does_not_use_it_up(client: Client, access: Access) -> None:
    token = access.make_token()
    assert (await client.head(f"/?open={token}")).status_code == 403
    assert (await client.get(f"/?open={token}")).status_code == 303


@pytest.mark.asyncio
async def test_of_many_addresses_the_newest_open(client: Client, access: Access) -> None:
    tokens = [access.make_token() for _ in range(MOST_TOKENS + 1)]
    assert (await client.get(f"/?open={tokens[0]}")).status_code == 403
    assert (await client.get(f"/?open={tokens[1]}")).status_code == 303


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/", "/static/app/main.js", "/api/runs", "/api/events", "/nothing"])
async def test_without_the_cookie_there_is_nothing(client: Client, path: str) -> None:
    assert (await client.get(path)).status_code == 403


@pytest.mark.asyncio
@pytest.mark.parametrize("cookie", ["", "astuner_logview_8123=", "astuner_logview_8123=é", "=;;=", "astuner_logview_8124=VALUE"])
async def test_another_cookie_is_none(client: Client, access: Access, cookie: str) -> None:
    await open_pages(client, access)
    given = cookie.replace("VALUE", client.cookies["astuner_logview_8123"])
    client.cookies.clear()
    assert (await client.get("/api/x", headers={"cookie": given.encode()})).status_code == 403


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8124", "localhost", "evil.example:8123", "127.0.0.1.evil.example:8123", "", "[::1]:8123"]
)
async def test_another_name_is_refused(client: Client, access: Access, host: str) -> None:
    await open_pages(client, access)
    answer = await client.get("/api/x", headers={"host": host})
    assert answer.status_code == 403
    assert "127.0.0.1:8123" in answer.json()["remedy"]


@pytest.mark.asyncio
async def test_localhost_is_a_name_of_loopback(client: Client, access: Access) -> None:
    await open_pages(client, access)
    assert (await client.get("/api/x", headers={"host": "localhost:8123"})).status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:8124", "https://127.0.0.1:8123", "null", ""])
async def test_another_origin_is_refused(client: Client, access: Access, origin: str) -> None:
    await open_pages(client, access)
    assert (await client.get("/api/x", headers={"origin": origin})).status_code == 403
    assert (await client.get("/api/x", headers={"origin": ORIGIN})).status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_of_another_port_or_site_may_link_to_the_viewer_and_nothing_else(
    client: Client, access: Access, site: str
) -> None:
    await open_pages(client, access)
    embeds = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
    assert (await client.get("/static/app/main.js", headers=embeds)).status_code == 403
    assert (await client.get("/api/x", headers={**embeds, "sec-fetch-mode": "navigate"})).status_code == 403
    follows = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
    assert (await client.get("/", headers=follows)).status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "ODD"])
async def test_other_methods_are_refused(client: Client, access: Access, method: str) -> None:
    await open_pages(client, access)
    answer = await client.request(method, "/api/runs", headers={"origin": ORIGIN, "content-type": "application/json"})
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": ORIGIN, "content-type": "application/json"}, 200),
        ({"origin": ORIGIN, "content-type": "application/json; charset=utf-8"}, 200),
        ({"content-type": "application/json"}, 403),
        ({"origin": "http://127.0.0.1:8124", "content-type": "application/json"}, 403),
        ({"origin": "null", "content-type": "application/json"}, 403),
        ({"origin": ORIGIN, "content-type": "text/plain"}, 415),
        ({"origin": ORIGIN, "content-type": "application/x-www-form-urlencoded"}, 415),
        ({"origin": ORIGIN}, 415),
    ],
)
async def test_what_is_posted_comes_from_the_page_itself(
    client: Client, access: Access, headers: dict[str, str], status: int
) -> None:
    await open_pages(client, access)
    assert (await client.post("/api/config/explain", content=b"{}", headers=headers)).status_code == status


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/", "/api/x", "/api/broken", "/nothing", "/static/app/html.js"])
@pytest.mark.parametrize("opened", [True, False])
async def test_every_answer_forbids_what_the_pages_do_not_need(client: Client, access: Access, path: str, opened: bool) -> None:
    if opened:
        await open_pages(client, access)
    answer = await client.get(path)
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["form-action"] == policy["base-uri"] == "'none'"


@pytest.mark.asyncio
async def test_a_failure_is_json_without_its_words(client: Client, access: Access, caplog: pytest.LogCaptureFixture) -> None:
    await open_pages(client, access)
    answer = await client.get("/api/broken")
    assert answer.status_code == 500
    assert answer.json()["error"] == "the viewer failed: KeyError"
    assert "a secret" not in answer.text
    assert "a secret" in caplog.text


def sign(password: str) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(f'me:{password}'.encode()).decode()}"}


@pytest.mark.asyncio
async def test_with_a_key_the_browser_asks_for_it(open_client: OpenClient) -> None:
    client = open_client(Access(port=8123, host="0.0.0.0", key=KEY))
    answer = await client.get("/", headers={"host": "gpu1.cluster:8123"})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")
    assert (await client.get("/api/x", headers={"host": "gpu1.cluster:8123", **sign(KEY)})).status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "headers",
    [{}, sign(""), sign(KEY[:-1]), sign(KEY + "x"), {"authorization": f"Bearer {KEY}"}, {"authorization": "Basic é".encode()}],
)
async def test_another_key_is_none(open_client: OpenClient, headers: dict[str, Any]) -> None:
    client = open_client(Access(port=8123, host="0.0.0.0", key=KEY))
    assert (await client.get("/api/x", headers=headers)).status_code == 401


@pytest.mark.asyncio
async def test_with_a_key_no_other_page_may_ask_either(open_client: OpenClient) -> None:
    client = open_client(Access(port=8123, host="0.0.0.0", key=KEY))
    headers = {"host": "gpu1.cluster:8123", "origin": "http://evil.example", **sign(KEY)}
    assert (await client.get("/api/x", headers=headers)).status_code == 403
    assert (await client.get("/api/x", headers={**headers, "origin": "http://gpu1.cluster:8123"})).status_code == 200


PUBLIC = "https://hub.example/user/me%40lab/proxy/{port}/"
FROM_HUB = {"host": "hub.example", "origin": "https://hub.example"}


@pytest.fixture
def proxied() -> Access:
    return Access(port=8123, public=read_public_url(PUBLIC, 8123))


@pytest.mark.asyncio
@pytest.mark.parametrize("prefix", ["", "/user/me%40lab/proxy/8123", "/user/me@lab/proxy/8123"])
@pytest.mark.parametrize("host", ["hub.example", "hub.example:443", "127.0.0.1:8123"])
async def test_a_proxy_may_keep_its_path_and_pass_its_host_on_or_not(
    open_client: OpenClient, proxied: Access, prefix: str, host: str
) -> None:
    client, headers = open_client(proxied), {**FROM_HUB, "host": host}
    opened = await client.get(f"{prefix}/?open={proxied.make_token()}", headers=headers)
    assert (opened.status_code, opened.headers["location"]) == (303, "./")
    assert "Secure" in opened.headers["set-cookie"]
    headers["cookie"] = opened.headers["set-cookie"].partition(";")[0]
    assert (await client.get(f"{prefix}/api/x", headers=headers)).json() == {"path": "/api/x"}
    posted = {**headers, "content-type": "application/json"}
    assert (await client.post(f"{prefix}/api/config/explain", content=b"{}", headers=posted)).status_code == 200
    assert (await client.get(f"{prefix}/static/app/main.js", headers=headers)).status_code == 200
    assert (await client.get(f"{prefix}/", headers=headers)).status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "changed",
    [
        {"host": "evil.example"},
        {"host": "hub.example:8123"},
        {"host": "hub.example:80"},
        {"origin": "http://hub.example"},
        {"origin": "https://evil.example"},
        {"origin": "https://hub.example:444"},
    ],
)
async def test_a_proxy_is_one_name_and_one_origin(open_client: OpenClient, proxied: Access, changed: dict[str, str]) -> None:
    client = open_client(proxied)
    opened = await client.get(f"/?open={proxied.make_token()}", headers=FROM_HUB)
    cookie = opened.headers["set-cookie"].partition(";")[0]
    assert (await client.get("/api/x", headers={**FROM_HUB, "cookie": cookie})).status_code == 200
    assert (await client.get("/api/x", headers={**FROM_HUB, "cookie": cookie, **changed})).status_code == 403


@pytest.mark.asyncio
async def test_without_its_address_a_proxy_is_refused_with_the_option(client: Client) -> None:
    for headers in (FROM_HUB, {"origin": "https://hub.example"}):
        assert "--public-url" in (await client.get("/api/x", headers=headers)).json()["remedy"]


@pytest.mark.asyncio
async def test_with_a_key_a_proxy_may_speak_https(open_client: OpenClient) -> None:
    public = read_public_url("https://hub.example/runs/", 8123)
    client = open_client(Access(port=8123, host="0.0.0.0", key=KEY, public=public))
    assert (await client.get("/runs/api/x", headers={**FROM_HUB, **sign(KEY)})).status_code == 200


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (PUBLIC, "https://hub.example/user/me%40lab/proxy/8123/"),
        ("http://localhost:8080/proxy/{{port}}", "http://localhost:8080/proxy/8123/"),
        ("HTTPS://Hub.Example:443", "https://hub.example/"),
        ("http://[::1]:80/a/b/", "http://[::1]/a/b/"),
        ("https://{port}.hub.example", "https://8123.hub.example/"),
    ],
)
def test_the_address_of_a_proxy_is_written_as_browsers_do(given: str, shown: str) -> None:
    assert str(read_public_url(given, 8123)) == shown


@pytest.mark.parametrize(
    "given",
    [
        *("", "hub.example", "/proxy/8123/", "ftp://hub.example", "https://", "https://me:secret@hub.example"),
        *(
            "http://hub.example:x/",
            "https://hub.example/?a=1",
            "https://hub.example/#a",
            "http://[::1/",
            "http://hub.example:70000/",
        ),
    ],
)
def test_another_address_of_a_proxy_is_refused_with_an_example(given: str) -> None:
    with pytest.raises(
        UsageError,
        match=r"--public-url \(or ASTUNER_LOGVIEW_PUBLIC_URL\) .*Example: https://hub\.example/user/me/proxy/\{port\}/",
    ):
        read_public_url(given, 8123)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/api/runs", "/api/runs"),
        ("/api/api/runs", "/api/runs"),
        ("/api/", "/"),
        ("/api", "/api"),
        ("/api/runs/a%2Fb", "/api/runs/a%2Fb"),
    ],
)
def test_a_path_that_is_called_as_one_of_ours_is_stripped_once(path: str, kept: str) -> None:
    scope = {"type": "http", "path": path, "raw_path": path.encode()}
    assert read_public_url("http://hub.example/api/", 1).strip_path(scope)["raw_path"] == kept.encode()


def test_the_key_and_the_tokens_are_in_no_text_of_the_rules() -> None:
    access = Access(port=8123, key=KEY)
    token = access.make_token()
    assert KEY not in repr(access)
    assert token not in repr(access)
