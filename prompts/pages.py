"""What the pages of prompts show: which version is active, which waits, what each of them lacks."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count

from prompts.catalogue import CATALOGUE, shipped_of
from prompts.models import Prompt, PromptActivation, PromptVersion
from prompts.needs import shortfalls

LOG_ROWS = 20


@dataclass(frozen=True, slots=True)
class Standing:
    """`current` None: nothing was ever active. `waiting`: a shipped version that was never active."""

    prompt: Prompt
    current: PromptActivation | None
    waiting: PromptVersion | None
    versions: int


@dataclass(frozen=True, slots=True)
class VersionRow:
    """`lacks`: why it may not be active, one sentence each."""

    version: PromptVersion
    active: bool
    waiting: bool
    lacks: tuple[str, ...]
    activations: int


@dataclass(frozen=True, slots=True)
class PromptPage:
    """`log`: the newest activations; `more`: whether there are older ones. `limit`: characters that may be active."""

    standing: Standing
    rows: tuple[VersionRow, ...]
    log: tuple[PromptActivation, ...]
    more: bool
    limit: int | None


def standings() -> list[Standing]:
    """Every prompt, in the order of the catalogue; those of earlier releases last. Four queries."""
    order = {shipped.name: place for place, shipped in enumerate(CATALOGUE)}
    newest = (
        PromptActivation.objects.order_by("prompt_id", "-id")
        .distinct("prompt_id")
        .select_related("version", "activated_by")
    )
    current = {activation.prompt_id: activation for activation in newest}
    shipped = (
        PromptVersion.objects.filter(origin=PromptVersion.Origin.SHIPPED)
        .order_by("prompt_id", "-number")
        .distinct("prompt_id")
    )
    unused = {version.prompt_id: version for version in shipped}
    seen = set(PromptActivation.objects.filter(version__in=list(unused.values())).values_list("prompt_id", flat=True))
    prompts = Prompt.objects.annotate(number_of_versions=Count("versions"))
    return [
        Standing(
            prompt=prompt,
            current=current.get(prompt.name),
            waiting=None if prompt.name in seen else unused.get(prompt.name),
            versions=prompt.number_of_versions,
        )
        for prompt in sorted(prompts, key=lambda prompt: (order.get(prompt.name, len(order)), prompt.name))
    ]


def standing_of(prompt: Prompt) -> Standing:
    shipped = prompt.newest_shipped()
    waits = shipped is not None and not shipped.activations.exists()
    return Standing(prompt, prompt.newest_activation(), shipped if waits else None, prompt.versions.count())


def page_of(prompt: Prompt) -> PromptPage:
    standing = standing_of(prompt)
    versions = (
        prompt.versions.select_related("created_by", "based_on")
        .annotate(number_of_activations=Count("activations"))
        .order_by("-number")
    )
    log = list(prompt.activations.select_related("version", "previous", "activated_by").order_by("-id")[: LOG_ROWS + 1])
    shipped = shipped_of(prompt.name)
    return PromptPage(
        standing=standing,
        rows=tuple(_row(version, standing) for version in versions),
        log=tuple(log[:LOG_ROWS]),
        more=len(log) > LOG_ROWS,
        limit=shipped.max_chars if shipped else None,
    )


def row_of(version: PromptVersion) -> VersionRow:
    version.number_of_activations = version.activations.count()  # type: ignore[attr-defined]
    return _row(version, standing_of(version.prompt))


def choices(versions: Sequence[PromptVersion]) -> list[tuple[int, str]]:
    return [(version.number, version.label) for version in versions]


def _row(version: PromptVersion, standing: Standing) -> VersionRow:
    return VersionRow(
        version=version,
        active=standing.current is not None and standing.current.version_id == version.id,
        waiting=standing.waiting is not None and standing.waiting.id == version.id,
        lacks=tuple(shortfalls(version.prompt_id, version.text)),
        activations=version.number_of_activations,  # type: ignore[attr-defined]
    )
