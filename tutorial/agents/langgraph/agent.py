"""A calculator agent on LangChain, whose `create_agent` builds a LangGraph graph of the model and its tools."""

from __future__ import annotations

import math

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.errors import GraphRecursionError

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


@tool
def calculator(expression: str) -> str:
    """Multiply the whole numbers of an expression such as 12*34."""
    try:
        return str(math.prod(map(int, expression.split("*"))))
    except ValueError as error:
        return f"error: {error}"


class CalculatorAgent(Workflow):
    """Lets the graph play the whole episode."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer one question in at most three calls."""
        api = tuner.as_oai_baseurl_apikey()
        model = ChatOpenAI(model=api.model, base_url=api.base_url, api_key=api.api_key, max_retries=0)
        graph = create_agent(model, [calculator], system_prompt="Use your tools.")
        question = {"messages": [{"role": "user", "content": workflow_task.task.main_query}]}
        try:
            # Three turns of the model, and the tools after two of them.
            state = await graph.ainvoke(question, {"recursion_limit": 6})
        except GraphRecursionError:
            return WorkflowOutput(metadata={"final_answer": ""})
        return WorkflowOutput(metadata={"final_answer": state["messages"][-1].text})
