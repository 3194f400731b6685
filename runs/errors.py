"""Every error that crosses a seam of a run.

    RunError
    ├── ModelError                      a model call did not give a usable reply
    │   ├── ModelUnavailable            after retries; transient ones carry `transient=True`
    │   ├── ModelRefused                401/403, content filter, refusal: trying again cannot help
    │   └── ModelContractViolated       it answered, but not what its contract asks for
    ├── ConfigurationError              a setting, prompt or rule is wrong: an operator must act
    ├── ToolError                       a tool call did not give evidence
    │   ├── ToolRejected                bad arguments, unknown tool, cap reached: the model may correct itself
    │   └── ToolFailed                  the source failed; `transient` says whether a retry may help
    ├── BudgetExhausted                 a limit of the run was reached; the run still concludes
    ├── RunCancelled                    someone or something ended the run from outside
    └── LeaseLost                       another worker owns the run now: write nothing more

`safe_message` of each is one sentence that anyone may read: no address, path, stack or query text.
"""

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runs.harness.ports import Usage


class FailureCode(StrEnum):
    MODEL_UNAVAILABLE = "MODEL_UNAVAILABLE"
    MODEL_REFUSED = "MODEL_REFUSED"
    MODEL_CONTRACT_VIOLATED = "MODEL_CONTRACT_VIOLATED"
    CONFIGURATION = "CONFIGURATION"
    WORKER_LOST = "WORKER_LOST"
    INTERNAL = "INTERNAL"


class CancelReason(StrEnum):
    USER_REQUESTED = "USER_REQUESTED"
    CLIENT_DISCONNECTED = "CLIENT_DISCONNECTED"
    DEADLINE = "DEADLINE"
    SHUTDOWN = "SHUTDOWN"


FAILURE_SENTENCES: dict[FailureCode, str] = {
    FailureCode.MODEL_UNAVAILABLE: "The language model could not be reached, also after retries.",
    FailureCode.MODEL_REFUSED: "The language model refused the request or its credentials.",
    FailureCode.MODEL_CONTRACT_VIOLATED: "The language model did not answer in the agreed form.",
    FailureCode.CONFIGURATION: "A setting, prompt or rule is wrong; an administrator has to look at it.",
    FailureCode.WORKER_LOST: "The worker that held this run was lost and the run could not be recovered.",
    FailureCode.INTERNAL: "Something unexpected went wrong inside SuperBiz; the log of the worker has the details.",
}

CANCEL_SENTENCES: dict[CancelReason, str] = {
    CancelReason.USER_REQUESTED: "The run was cancelled on request.",
    CancelReason.CLIENT_DISCONNECTED: "The run was cancelled because its caller went away.",
    CancelReason.DEADLINE: "The run was cancelled at its deadline.",
    CancelReason.SHUTDOWN: "The run was cancelled because its worker was shut down.",
}


class RunError(Exception):
    def __init__(self, safe_message: str) -> None:
        super().__init__(safe_message)
        self.safe_message = safe_message


class ModelError(RunError):
    """`usage`: what the attempt cost all the same, where the server said so (an answer that was cut off, say)."""

    failure_code = FailureCode.MODEL_UNAVAILABLE

    def __init__(self, safe_message: str, *, error_code: str, transient: bool = False) -> None:
        super().__init__(safe_message)
        self.error_code = error_code
        self.transient = transient
        self.usage: Usage | None = None


class ModelUnavailable(ModelError):
    """`retry_after` in seconds when the server named one."""

    def __init__(
        self, safe_message: str, *, error_code: str, transient: bool = True, retry_after: float | None = None
    ) -> None:
        super().__init__(safe_message, error_code=error_code, transient=transient)
        self.retry_after = retry_after


class ModelRefused(ModelError):
    failure_code = FailureCode.MODEL_REFUSED


class ModelContractViolated(ModelError):
    failure_code = FailureCode.MODEL_CONTRACT_VIOLATED


class ConfigurationError(RunError):
    failure_code = FailureCode.CONFIGURATION


class ToolError(RunError):
    """`error_code` is UPPER_SNAKE and stored with the invocation."""

    def __init__(self, safe_message: str, *, error_code: str) -> None:
        super().__init__(safe_message)
        self.error_code = error_code


class ToolRejected(ToolError):
    pass


class ToolFailed(ToolError):
    def __init__(self, safe_message: str, *, error_code: str, transient: bool = False) -> None:
        super().__init__(safe_message, error_code=error_code)
        self.transient = transient


class BudgetExhausted(RunError):
    """`budget` names the limit: model_calls, tokens or deadline."""

    def __init__(self, budget: str) -> None:
        super().__init__(f"The run's {budget.replace('_', ' ')} budget ended.")
        self.budget = budget


class RunCancelled(RunError):
    def __init__(self, reason: CancelReason) -> None:
        super().__init__(CANCEL_SENTENCES[reason])
        self.reason = reason


class LeaseLost(RunError):
    def __init__(self) -> None:
        super().__init__("Another worker holds this run now.")
