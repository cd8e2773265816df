"""What MLflow has of a run, read back with its client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def client(servers: dict[str, str]) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=servers["mlflow"])


@pytest.fixture
def experiment(client: Any, request: pytest.FixtureRequest) -> str:
    return str(client.create_experiment(request.node.name))


@pytest.fixture
def options(servers: dict[str, str], experiment: str) -> dict[str, Any]:
    """What `docs/loggers.md` says of MLflow: the header names the experiment."""
    return {"endpoint": servers["mlflow"], "headers": {"x-mlflow-experiment-id": experiment}}


def read_traces(client: Any, experiment: str) -> dict[str, Any]:
    """Return the traces of an experiment by the id of their episode."""
    found = client.search_traces(locations=[experiment])
    return {next(span.attributes["astuner.episode"] for span in one.data.spans if span.parent_id is None): one for one in found}


def test_an_episode_is_an_agent_with_model_calls_and_tools(
    client: Any, experiment: str, options: dict[str, Any], send: Callable[..., None]
) -> None:
    send("kinds", **options)
    trace = read_traces(client, experiment)["train/3/sum/0"]
    root = next(span for span in trace.data.spans if span.parent_id is None)
    assert sorted((span.span_type, span.name, span.parent_id) for span in trace.data.spans if span.parent_id) == [
        ("CHAT_MODEL", "chat model", root.span_id),
        ("CHAT_MODEL", "chat model", root.span_id),
        ("TOOL", "execute_tool add", root.span_id),
    ]
    assert (root.span_type, root.inputs, root.outputs) == ("AGENT", "What is 2 + 2?", "It is 4.")
    assert (root.attributes["astuner.reward"], root.attributes["astuner.success"]) == (1.0, True)
    assert trace.info.execution_duration == 2000


def test_a_failure_is_an_error_and_tokens_are_summed(
    client: Any, experiment: str, options: dict[str, Any], send: Callable[..., None]
) -> None:
    send("outcomes", **options)
    traces = read_traces(client, experiment)
    states = {episode: str(trace.info.state.value) for episode, trace in traces.items()}
    assert states == {"train/3/sum/0": "OK", "train/3/sum/1": "OK", "train/3/sum/2": "ERROR"}
    assert traces["train/3/sum/0"].info.token_usage == {"input_tokens": 9, "output_tokens": 6, "total_tokens": 15}


def test_mlflow_reads_messages_and_tools(
    client: Any, experiment: str, options: dict[str, Any], send: Callable[..., None]
) -> None:
    send("messages", **options)
    spans = read_traces(client, experiment)["train/3/sum/0"].data.spans
    first, second = (
        next(span for span in spans if span.name == "chat model" and span.attributes["astuner.call"] == n) for n in (0, 1)
    )
    (tool,) = [span for span in spans if span.span_type == "TOOL"]
    assert first.attributes["mlflow.chat.tools"][0]["name"] == "add"
    assert [message["role"] for message in second.inputs] == ["system", "user", "assistant", "tool"]
    assert second.outputs[0]["parts"] == [{"type": "text", "content": "It is 4."}]
    assert (tool.inputs, str(tool.outputs)) == ({"a": 2, "b": 2}, "4")


def test_a_resumed_run_is_there_once_and_takes_no_longer(
    client: Any, experiment: str, options: dict[str, Any], send: Callable[..., None]
) -> None:
    send("resumed", **options)
    send("resumed", **options, resumed=True)
    found = client.search_traces(locations=[experiment])
    assert [len(trace.data.spans) for trace in found] == [4, 4, 4]
    assert {trace.info.execution_duration for trace in found} == {2000}


def test_a_run_is_a_session(client: Any, experiment: str, options: dict[str, Any], run_project: Callable[..., None]) -> None:
    run_project(**options)
    found = client.search_traces(locations=[experiment])
    assert len(found) == 2
    assert len({trace.info.trace_metadata["mlflow.trace.session"] for trace in found}) == 1


def test_an_experiment_that_mlflow_does_not_have_is_a_loss_that_says_why(
    servers: dict[str, str], send: Callable[..., None]
) -> None:
    from astuner.contract.errors import PluginError

    with pytest.raises(PluginError, match=r"3 of 3 episodes did not arrive: 404 .*No Experiment with id=987654"):
        send("nowhere", endpoint=servers["mlflow"], headers={"x-mlflow-experiment-id": "987654"})
