"""A server of environments as others have written them, on the standard library alone: `python foreign_env_server.py [PORT]`.

Ids of tasks are numbers, a state is one message or a list of them as the task says, failures are answered with a traceback, and
nobody is asked for a token. `POST /control` sets what goes wrong next, and gives back everything that was received.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEYS = {"env_type", "task_id", "instance_id", "messages", "params"}
SPLITS = {"train": [1, 2, 3], "dev": [7], "empty": [], "twice": [5, 5]}


class World:
    """A counter: `more` counts, `stop` ends."""

    def __init__(self):
        self.lock = threading.Lock()
        self.instances, self.received, self.faults, self.made = {}, [], [], 0
        self.own_ids = False

    def answer(self, endpoint, body):
        if endpoint == "get_env_profile":
            return SPLITS[body["params"]["split"]]
        if endpoint == "create":
            self.made += 1
            name = f"own-{self.made}" if self.own_ids else body["instance_id"]
            self.instances[name] = {"task": body["task_id"], "count": 0}
            info = {"instance_id": name, "task_id": body["task_id"]}
            return {"state": self.state(body["task_id"], "Count.", "Say more or stop."), "info": info}
        if body["instance_id"] not in self.instances:
            raise KeyError(body["instance_id"])
        instance = self.instances[body["instance_id"]]
        if endpoint == "step":
            said = body["messages"]["content"]
            instance["count"] += 1
            if said == "raise":
                raise RuntimeError("the world broke")
            state = self.state(instance["task"], f"You said {said}.", f"That makes {instance['count']}.")
            done = said == "stop"
            return {"state": state, "reward": 0.5, "is_terminated": done, "info": {"count": instance["count"], "kept": [1, 2]}}
        if endpoint == "evaluate":
            return 1.0 if body["params"]["sparse"] else 0.25 * instance["count"]
        return {"alive": True}

    def state(self, task, *texts):
        if task == "1":
            return {"role": "user", "content": texts[-1]}
        if task == "3":
            return {"content": texts[-1]}
        return [{"role": "system", "content": texts[0]}, {"role": "user", "content": texts[1], "name": "world"}]


WORLD = World()


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send(200, b"OK", "text/plain")

    def do_POST(self):
        endpoint = self.path.strip("/")
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if endpoint == "control":
            with WORLD.lock:
                if body.get("forget"):
                    WORLD.faults.clear()
                WORLD.faults += body.get("faults", [])
                WORLD.own_ids = body.get("own_ids", WORLD.own_ids)
                found = {"received": WORLD.received, "instances": WORLD.instances, "faults": WORLD.faults}
                self.send_json(200, found)
            return
        with WORLD.lock:
            WORLD.received.append([endpoint, body, sorted(body) == sorted(KEYS), self.headers.get("authorization")])
            at = next((n for n, fault in enumerate(WORLD.faults) if fault["at"] == endpoint), None)
            fault = {} if at is None else WORLD.faults.pop(at)
        if fault.get("when") == "before":
            self.fail(fault)
            return
        try:
            with WORLD.lock:
                if endpoint == "release":
                    status, found = 200, {"success": WORLD.instances.pop(body["instance_id"], None) is not None, "data": None}
                else:
                    status, found = 200, {"success": True, "data": WORLD.answer(endpoint, body)}
        except KeyError:
            status, found = 400, {"detail": "Instance or split not found"}
        except Exception:  # noqa: BLE001  # as others do
            status, found = 500, {"detail": traceback.format_exc()}
        if fault.get("when") == "after":
            self.fail(fault)
            return
        time.sleep(fault.get("sleep_s", 0))
        self.send_json(fault.get("status", status), fault.get("answer", found))

    def fail(self, fault):
        """Answer with a status, or close the connection without a word."""
        if "status" in fault:
            self.send_json(fault["status"], {"detail": "a fault that was asked for"})
        else:
            self.connection.close()

    def send_json(self, status, found):
        self.send(status, json.dumps(found).encode(), "application/json")

    def send(self, status, content, kind):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Connections that were closed on purpose are no news."""


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Handler)
    print(f"Starting server on 127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
