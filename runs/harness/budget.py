"""What a run may still spend. Pure bookkeeping: the clock is handed in, nothing is awaited.

Three budgets end a run's search: model calls, tokens, time. Verifier and composer draw on a reserve
that the searching roles cannot touch, so that whatever was found is still judged and released.
Tool calls are capped too, but a cap is an answer to the model, not an end of the run.
"""

from dataclasses import dataclass

from runs.errors import BudgetExhausted
from runs.harness.ports import Role
from runs.harness.run import Limits, Spent

CONCLUDING_ROLES = frozenset({Role.CHAT_VERIFIER, Role.CHAT_COMPOSER})


@dataclass(slots=True)
class Budget:
    """`elapsed_before` is what of the deadline was used before this attempt, in seconds."""

    limits: Limits
    started: float
    elapsed_before: float = 0.0
    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    concluding_tokens: int = 0

    @classmethod
    def begin(cls, limits: Limits, spent: Spent, *, now: float, elapsed_before: float) -> "Budget":
        return cls(
            limits=limits,
            started=now,
            elapsed_before=elapsed_before,
            model_calls=spent.model_calls,
            tool_calls=spent.tool_calls,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
        )

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def elapsed(self, now: float) -> float:
        return self.elapsed_before + (now - self.started)

    def searching_calls_left(self) -> int:
        return max(0, self.limits.max_model_calls - self.limits.reserved_model_calls - self.model_calls)

    def check_model_call(self, role: Role, now: float) -> None:
        """Raises `BudgetExhausted` when `role` may not make one more call."""
        concluding = role in CONCLUDING_ROLES
        if self.model_calls >= self.limits.max_model_calls - (0 if concluding else self.limits.reserved_model_calls):
            raise BudgetExhausted("model_calls")
        if self._out_of_tokens(concluding):
            raise BudgetExhausted("tokens")
        if self.seconds_left(role, now) <= 0:
            raise BudgetExhausted("deadline")

    def _out_of_tokens(self, concluding: bool) -> bool:
        """The reserve stays whole, however far beyond its share the last searching call went."""
        reserve = self.limits.max_tokens * self.limits.reserved_token_share
        if concluding:
            return self.tokens >= self.limits.max_tokens and self.concluding_tokens >= reserve
        return self.tokens >= self.limits.max_tokens - reserve

    def count(self, role: Role, input_tokens: int, output_tokens: int) -> None:
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        if role in CONCLUDING_ROLES:
            self.concluding_tokens += input_tokens + output_tokens

    def seconds_left(self, role: Role, now: float) -> float:
        """Until the mark that holds for `role`: the soft one for who searches, the deadline for who concludes."""
        share = 1.0 if role in CONCLUDING_ROLES else self.limits.soft_deadline_share
        return self.limits.deadline_s * share - self.elapsed(now)

    def must_conclude(self, now: float) -> bool:
        """True when the next searching call is the last one that is sure to be allowed."""
        soft = self.limits.deadline_s * self.limits.soft_deadline_share
        return (
            self.searching_calls_left() <= 1
            or self.tokens >= self.limits.max_tokens * (1 - 2 * self.limits.reserved_token_share)
            or self.elapsed(now) >= soft * 0.85
        )

    def usage_of(self, budget: str, now: float) -> tuple[int, int]:
        """(limit, used) of a budget by name, in its own unit; seconds for the deadline."""
        if budget == "model_calls":
            return self.limits.max_model_calls, self.model_calls
        if budget == "tokens":
            return self.limits.max_tokens, self.tokens
        return int(self.limits.deadline_s), int(self.elapsed(now))
