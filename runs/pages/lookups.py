"""Which lookups an admin's list may be asked for in its address."""

from django.db.models import Field
from django.db.models.fields.related_lookups import RelatedLookupMixin

PLAIN = frozenset({"exact", "in", "isnull", "gt", "gte", "lt", "lte"})


def is_plain(lookup: str) -> bool:
    """Only comparisons with whole values.

    Parts of dates and ranges can be errors of the database; by patterns, a text that is not shown could be guessed at
    letter by letter.
    """
    return not {part for part in lookup.split("__")[1:] if part not in PLAIN} & _known()


def _known() -> set[str]:
    """The names of all lookups and transforms that fields have here; other parts of a lookup name fields."""
    kinds = [Field, *_subclasses(Field), *_subclasses(RelatedLookupMixin)]
    return {name for kind in kinds for name in getattr(kind, "class_lookups", {})}


def _subclasses(kind: type) -> list[type]:
    direct: list[type] = kind.__subclasses__()
    return direct + [each for one in direct for each in _subclasses(one)]
