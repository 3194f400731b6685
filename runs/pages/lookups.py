"""Which lookups an admin's list may be asked for in its address."""

TRANSFORMS = frozenset(
    {"year", "iso_year", "month", "day", "week", "week_day", "iso_week_day", "quarter", "date", "time"}
)
PATTERNS = frozenset("regex iregex contains icontains startswith istartswith endswith iendswith".split())


def is_plain(lookup: str) -> bool:
    """False for parts of a date, where a year beyond all calendars is an error of the database, and for patterns, by
    which a text that is not shown could be guessed at letter by letter."""
    return not {*TRANSFORMS, *PATTERNS} & set(lookup.split("__")[1:])
