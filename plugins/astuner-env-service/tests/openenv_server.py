"""A server of OpenEnv's `/ws`: `python openenv_server.py small|real PORT PLACES`.

`real` is made by openenv-core, where that is installed; `small` says the same words with websockets alone.
"""

import asyncio
import json
import sys


class Counting:
    """Adds up numbers until `stop`; `raise` fails."""

    def __init__(self):
        self.total, self.seed = 0, None

    def act(self, message, number):
        if message == "raise":
            raise RuntimeError("the world broke")
        self.total += number
        return {"text": f"{message}: {self.total}", "seed": self.seed}, 0.5 * number, message == "stop"


def small(port, places):
    from websockets.asyncio.server import serve
    from websockets.exceptions import ConnectionClosed

    sessions = set()

    async def session(socket):
        async def say(kind, **data):
            await socket.send(json.dumps({"type": kind, "data": data}))

        if len(sessions) >= places:
            await say("error", message="Server at capacity", code="CAPACITY_REACHED", active_sessions=places, max_sessions=places)
            return
        world = Counting()
        sessions.add(world)
        try:
            async for text in socket:
                order = json.loads(text)
                kind, data = order.pop("type"), order.pop("data", {})
                if order or (kind in ("state", "close") and data):
                    await say("error", message="Invalid message", code="VALIDATION_ERROR", errors=[])
                elif kind == "reset":
                    world.seed = data.get("seed")
                    await say("observation", observation={"text": "begin", "seed": world.seed}, reward=None, done=False)
                elif kind == "step":
                    if sorted(data) not in (["message"], ["message", "number"]) or not isinstance(data["message"], str):
                        errors = [{"loc": ["message"], "msg": "Field required"}]
                        await say("error", message="Invalid message", code="VALIDATION_ERROR", errors=errors)
                        continue
                    try:
                        observation, reward, done = world.act(data["message"], data.get("number", 1))
                        await say("observation", observation=observation, reward=reward, done=done)
                    except RuntimeError as error:
                        await say("error", message=str(error), code="EXECUTION_ERROR")
                elif kind == "state":
                    await say("state", sessions=len(sessions), episode_id=None, step_count=0)
                else:
                    return
        except ConnectionClosed:
            pass
        finally:
            sessions.discard(world)

    async def main():
        async with serve(session, "127.0.0.1", port):
            print("ready", flush=True)
            await asyncio.get_running_loop().create_future()

    asyncio.run(main())


def real(port, places):
    import uvicorn
    from openenv.core.env_server.http_server import create_fastapi_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State

    class Say(Action):
        message: str
        number: int = 1

    class Heard(Observation):
        text: str
        seed: int | None

    class World(Environment):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self):
            super().__init__()
            self.world = Counting()

        def reset(self, seed=None, episode_id=None, **_):
            self.world.seed = seed
            return Heard(text="begin", seed=seed, reward=None, done=False)

        def step(self, action, timeout_s=None, **_):
            observation, reward, done = self.world.act(action.message, action.number)
            return Heard(**observation, reward=reward, done=done)

        @property
        def state(self):
            return State()

    app = create_fastapi_app(World, Say, Heard, max_concurrent_envs=places)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    print("ready", flush=True)
    server.run()


if __name__ == "__main__":
    {"small": small, "real": real}[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
