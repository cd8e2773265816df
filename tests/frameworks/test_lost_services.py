"""A judge's service that is away is not the answer's doing, whichever library asks it."""

from __future__ import annotations

import pytest

from astuner.episodes.containment.surroundings import is_service_failure


@pytest.mark.agentscope1
def test_a_call_of_grpc_to_nobody() -> None:
    import grpc

    with grpc.insecure_channel("127.0.0.1:1") as channel, pytest.raises(grpc.RpcError) as lost:
        channel.unary_unary("/judge/Score")(b"", timeout=5)
    assert is_service_failure(lost.value)


@pytest.mark.agentscope1
@pytest.mark.parametrize(("status", "lost"), [(429, True), (503, True), (400, False)])
def test_a_response_of_aws(status: int, lost: bool) -> None:
    from botocore.exceptions import ClientError

    assert is_service_failure(ClientError({"ResponseMetadata": {"HTTPStatusCode": status}}, "InvokeModel")) is lost


@pytest.mark.agentscope1
def test_aws_that_does_not_answer() -> None:
    from botocore.exceptions import EndpointConnectionError, ParamValidationError, ReadTimeoutError

    assert is_service_failure(EndpointConnectionError(endpoint_url="https://bedrock.example"))
    assert is_service_failure(ReadTimeoutError(endpoint_url="https://bedrock.example"))
    assert not is_service_failure(ParamValidationError(report="the text is empty"))
