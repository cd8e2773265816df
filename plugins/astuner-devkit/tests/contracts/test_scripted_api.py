import http.client
import socket
import struct
import threading
from urllib.parse import urlsplit

import pytest

from astuner_devkit.scripted_api import scripted_api


def ask_and_leave(url: str) -> None:
    """Ask, and reset the connection before there is an answer."""
    host, port = urlsplit(url).netloc.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")


def test_a_client_that_leaves_is_no_news(capfd: pytest.CaptureFixture[str]):
    left = threading.Event()
    with scripted_api(lambda body, number: str(left.wait(10))) as api:
        ask_and_leave(api.url)
        left.set()
        connection = http.client.HTTPConnection(urlsplit(api.url).netloc)
        connection.request("POST", "/v1/chat/completions", b"{}")
        assert connection.getresponse().status == 200
        connection.close()
    assert capfd.readouterr() == ("", "")
