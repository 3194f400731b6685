"""What is active now, and what a run pins at its start."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from operator import or_
from types import MappingProxyType

from django.db.models import Count, Q, Window

from prompts.catalogue import CATALOGUE
from prompts.models import PromptActivation, PromptVersion, label_of


@dataclass(frozen=True, slots=True)
class PinnedPrompt:
    """`version` such as chat-executor-v2; `resource` such as prompts/chat-executor-prompt.md."""

    name: str
    version: str
    number: int
    resource: str
    sha256: str
    text: str


@dataclass(frozen=True, slots=True)
class PinnedSet:
    """`version` such as aiops-prompts-v1: it counts the changes of what is active in the set."""

    version: str
    prompts: dict[str, PinnedPrompt]


def pin(prompt_set: str, instead: Mapping[str, int] = MappingProxyType({})) -> PinnedSet:
    """The active prompts of a set (`catalogue.CHAT_SET` or `AIOPS_SET`), by name. Never cached.

    What is active is read in one statement, so that it is what was active at one moment. `instead`: version numbers
    by prompt name that take the place of the active ones, for a rehearsal; the set's version says so. Raises
    LookupError naming a prompt that has no active version, or a version that there is not.
    """
    names = [shipped.name for shipped in CATALOGUE if prompt_set in shipped.sets]
    newest = list(
        PromptActivation.objects.filter(prompt_id__in=names)
        # PostgreSQL counts over all rows before it picks the newest of each prompt.
        .annotate(of_set=Window(Count("id")))
        .order_by("prompt_id", "-id")
        .distinct("prompt_id")
        .select_related("version__prompt")
    )
    pinned = {activation.prompt_id: _pinned(activation.version) for activation in newest}
    for name in names:
        if name not in pinned:
            raise LookupError(f"The prompt {name} has no active version; run sync_prompts.")
    version = f"{prompt_set}-v{newest[0].of_set - len(names) + 1}"
    replaced = {name: number for name, number in instead.items() if name in pinned}
    if not replaced:
        return PinnedSet(version, pinned)
    return PinnedSet(f"{version}+rehearsal", pinned | _exactly(replaced))


def pin_again(version: str, numbers: Mapping[str, int]) -> PinnedSet:
    """What a run pinned at its start, for a later attempt of it: version numbers by prompt name."""
    return PinnedSet(version, _exactly(numbers))


def _exactly(numbers: Mapping[str, int]) -> dict[str, PinnedPrompt]:
    wanted = functools.reduce(or_, (Q(prompt_id=name, number=number) for name, number in numbers.items()))
    found = {row.prompt_id: _pinned(row) for row in PromptVersion.objects.filter(wanted).select_related("prompt")}
    for name, number in numbers.items():
        if name not in found:
            raise LookupError(f"There is no {label_of(name, number)}.")
    return found


def _pinned(version: PromptVersion) -> PinnedPrompt:
    return PinnedPrompt(
        name=version.prompt_id,
        version=version.label,
        number=version.number,
        resource=version.prompt.resource,
        sha256=version.sha256,
        text=version.text,
    )
