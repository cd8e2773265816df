"""An agent of its own class with a structured answer; what it has read goes to the judge in the answer's metadata."""

from __future__ import annotations

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg, TextBlock
from agentscope.model import OpenAIChatModel
from agentscope.tool import ToolResponse
from agentscope.tuner import JudgeOutput, WorkflowOutput
from pydantic import BaseModel, Field

MAILS = {"m1": "The meeting is on Friday."}


class Answer(BaseModel):
    answer: str
    sources: list[str] = Field(default_factory=list)


class Query(BaseModel):
    question: str
    answer: str
    message_ids: list[str]


class MailAgent(ReActAgent):
    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self.read: list[str] = []
        self.toolkit.register_tool_function(self.read_mail)

    async def read_mail(self, message_id: str) -> ToolResponse:
        """Return a mail.

        Args:
            message_id (str): Its id.
        """
        self.read.append(message_id)
        return ToolResponse(content=[TextBlock(type="text", text=MAILS.get(message_id, "no such mail"))])


async def search(task: dict, model: OpenAIChatModel, auxiliary_models: dict[str, OpenAIChatModel]) -> WorkflowOutput:
    assert len(auxiliary_models) > 0
    query = Query.model_validate(task)
    agent = MailAgent(name="mail", sys_prompt="Search.", model=model, formatter=OpenAIChatFormatter(), max_iters=4)
    agent.set_console_output_enabled(False)
    reply = await agent.reply(msg=Msg("user", query.question, role="user"), structured_model=Answer)
    found = reply.metadata or {}
    reply.metadata = {**found, "found": dict(found), "query": query.model_dump(), "read": agent.read}
    return WorkflowOutput(response=reply)


async def grade(task: dict, response: Msg, auxiliary_models: dict[str, OpenAIChatModel]) -> JudgeOutput:
    query, found = Query.model_validate(response.metadata["query"]), response.metadata["found"]
    judge = auxiliary_models.get("judge") or next(iter(auxiliary_models.values()))
    said = await judge([{"role": "user", "content": f"{query.answer} = {found['answer']}?"}])
    accepted = "true" in "".join(block["text"] for block in said.content if block["type"] == "text")
    scores = {
        "accuracy": 1.0 if accepted else -1.0,
        "format": 0.1 * (query.message_ids[0] in response.metadata["read"]) + 0.1 * (found["sources"] == query.message_ids),
    }
    return JudgeOutput(reward=sum(scores.values()), metrics={**scores, "turns": len(response.metadata["read"])})
