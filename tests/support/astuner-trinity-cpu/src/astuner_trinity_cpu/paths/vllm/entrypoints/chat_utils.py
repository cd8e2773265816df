from typing import Any

ChatTemplateContentFormat = str


class ConversationMessage(dict): ...


def parse_chat_messages(*_: Any, **__: Any) -> Any:
    raise RuntimeError("vLLM is not installed: pictures cannot be read")


async def parse_chat_messages_async(*_: Any, **__: Any) -> Any:
    raise RuntimeError("vLLM is not installed: pictures cannot be read")
