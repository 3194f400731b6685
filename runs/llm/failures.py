"""From what a provider's SDK raises to the three errors of `runs.errors.ModelError`.

What a server wrote into an error body is never repeated: it may quote the prompt or the key. The sentence
names the HTTP status and, where it is a plain lower-case word, the provider's error code.
"""

import re
from collections.abc import Iterator

import httpx2
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRequestTimeout,
    ModelTimeoutError,
    UserError,
)

from runs.errors import ModelContractViolated, ModelError, ModelRefused, ModelUnavailable
from runs.llm.providers import timed_out

MAX_RETRY_AFTER_S = 3600.0

_PLAIN_CODE = re.compile(r"[a-z]+(?:_[a-z]+){0,6}")
_BROKEN_REPLY = "The language model's server sent an answer that is not a chat completion."


def model_error(error: Exception) -> ModelError:
    """The `ModelError` of a failed provider call. Every exception has one: what is not known is a broken answer."""
    for cause in _chain(error):
        if isinstance(cause, ModelError):
            return cause
    match error:
        case ModelHTTPError():
            return _by_status(error)
        case ModelTimeoutError() | ModelRequestTimeout() | httpx2.TimeoutException():
            return timed_out()
        case ModelConnectionError() | httpx2.TransportError():
            return ModelUnavailable("The language model's server could not be reached.", error_code="CONNECTION")
        case ContentFilterError():
            return content_filtered()
        case UserError():
            return ModelRefused(
                "This language model cannot take such a request; see SUPERBIZ_LLM and SUPERBIZ_LLM_OUTPUT.",
                error_code="UNSUPPORTED",
            )
        case _:
            return ModelContractViolated(_BROKEN_REPLY, error_code="MALFORMED")


def content_filtered() -> ModelRefused:
    return ModelRefused("The language model declined to answer this request.", error_code="CONTENT_FILTERED")


def _by_status(error: ModelHTTPError) -> ModelError:
    status, told = error.status_code, _told(error)
    if isinstance(error, ModelQuotaExceededError):
        return ModelRefused(f"The language model account has no credit left ({told}).", error_code="QUOTA_EXCEEDED")
    if isinstance(error, ModelContextWindowExceededError):
        return ModelRefused(f"The request is too long for the language model ({told}).", error_code="CONTEXT_TOO_LONG")
    if status in {401, 403}:
        return ModelRefused(f"The language model refused the credentials ({told}).", error_code="UNAUTHORIZED")
    if status == 429:
        return ModelUnavailable(
            f"The language model's rate limit was reached ({told}).",
            error_code="RATE_LIMITED",
            retry_after=_retry_after(error),
        )
    if status == 408:
        return timed_out()
    if status >= 500:
        return ModelUnavailable(
            f"The language model's server failed ({told}).", error_code="SERVER_ERROR", retry_after=_retry_after(error)
        )
    return ModelRefused(f"The language model's server did not accept the request ({told}).", error_code="BAD_REQUEST")


def _told(error: ModelHTTPError) -> str:
    code = error.provider_error_code
    return f"HTTP {error.status_code}, {code}" if code and _PLAIN_CODE.fullmatch(code) else f"HTTP {error.status_code}"


def _retry_after(error: ModelAPIError) -> float | None:
    return None if error.retry_after is None else min(error.retry_after, MAX_RETRY_AFTER_S)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what caused it, nearest first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
