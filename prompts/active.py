"""What is active now, and what a run pins at its start."""

from dataclasses import dataclass

from django.db.models import Count

from prompts.catalogue import CATALOGUE
from prompts.models import PromptActivation


@dataclass(frozen=True, slots=True)
class PinnedPrompt:
    """`version` such as chat-executor-v2; `resource` such as prompts/chat-executor-prompt.md."""

    name: str
    version: str
    resource: str
    sha256: str
    text: str


@dataclass(frozen=True, slots=True)
class PinnedSet:
    """`version` such as aiops-prompts-v1: it counts the changes of what is active in the set."""

    version: str
    prompts: dict[str, PinnedPrompt]


def pin(prompt_set: str) -> PinnedSet:
    """The active prompts of a set (`catalogue.CHAT_SET` or `AIOPS_SET`), by name. Two queries, never cached.

    Raises LookupError naming a prompt that has no active version.
    """
    names = [shipped.name for shipped in CATALOGUE if prompt_set in shipped.sets]
    newest = (
        PromptActivation.objects.filter(prompt_id__in=names)
        .order_by("prompt_id", "-id")
        .distinct("prompt_id")
        .select_related("version", "prompt")
    )
    pinned = {
        activation.prompt_id: PinnedPrompt(
            name=activation.prompt_id,
            version=activation.version.label,
            resource=activation.prompt.resource,
            sha256=activation.version.sha256,
            text=activation.version.text,
        )
        for activation in newest
    }
    for name in names:
        if name not in pinned:
            raise LookupError(f"The prompt {name} has no active version; run sync_prompts.")
    count = PromptActivation.objects.filter(prompt_id__in=names).aggregate(n=Count("id"))["n"]
    return PinnedSet(f"{prompt_set}-v{count - len(names) + 1}", pinned)
