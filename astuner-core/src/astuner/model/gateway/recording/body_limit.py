"""The limit of a request's size, which follows from the context: what cannot fit is refused before it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from astuner.model.rendering.errors import ApiError

if TYPE_CHECKING:
    from astuner.contract.schema import Capabilities
    from astuner.model.gateway.recording.episode_spec import EpisodeSpec

BYTES_PER_TOKEN = 32
"""Of a body, for each token of the context: seven times those of English, three times those of escaped Chinese."""

FREE_BYTES = 1 << 20
"""What a body may have in addition: fields that are no part of the prompt, reasoning that the template drops."""

MOST_BYTES = 32 << 20
"""The limit for the longest contexts, and for engines that count their own tokens."""


@frozen
class BodyLimit:
    """The largest body that is read."""

    max_bytes: int
    context: int | None = None
    """The tokens of the context that the limit follows from; None for any other limit."""

    @classmethod
    def derive(cls, context: int) -> BodyLimit:
        """Return the limit for a context of this many tokens."""
        return cls(min(FREE_BYTES + BYTES_PER_TOKEN * context, MOST_BYTES), context)

    def make_error(self) -> ApiError:
        """Make the answer to a larger body."""
        if self.context is None:
            text = f"The body is larger than gateway.max_body_bytes = {self.max_bytes}. Shorten the messages, or raise this key."
            return ApiError(413, text, code="request_too_large")
        text = (
            f"This model's maximum context length is {self.context} tokens, for which a request may have {self.max_bytes} bytes. "
            "Shorten the messages, or set gateway.max_body_bytes."
        )
        return ApiError(400, text, code="context_length_exceeded", param="messages", retry=False)


def find_body_limit(spec: EpisodeSpec, capabilities: Capabilities) -> BodyLimit:
    """Return the limit for an episode's requests to an engine; one without token ids counts its own tokens."""
    if not capabilities.token_ids:
        return BodyLimit(MOST_BYTES)
    return BodyLimit.derive(spec.find_context(capabilities.max_model_len))
