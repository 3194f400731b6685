"""Which prompt each role is given, and whether anybody reads it."""

from django.conf import settings

from runs.harness.ports import Role

OFFLINE = "offline"
"""The model that plays every role by rules and quotations; it reads no prompt."""

PROMPT_NAMES = {
    Role.ROUTER: "intent_router",
    Role.SYSTEM_CHAT: "system_chat",
    Role.CHAT_PLANNER: "chat_planner",
    Role.CHAT_EXECUTOR: "chat_executor",
    Role.CHAT_VERIFIER: "chat_verifier",
    Role.CHAT_COMPOSER: "chat_composer",
    Role.AIOPS_SUPERVISOR: "supervisor",
    Role.AIOPS_PLANNER: "planner",
    Role.AIOPS_EXECUTOR: "executor",
}


def read_by_nobody(prompt: str) -> bool:
    """Whether the role of this prompt is played by the offline model."""
    env = settings.SUPERBIZ
    families = {role.family.lower() for role, name in PROMPT_NAMES.items() if name == prompt}
    return any((getattr(env, f"llm_{family}") or env.llm) == OFFLINE for family in families)
