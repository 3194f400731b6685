"""What is searched for, written as `search_text` is (`runs.models.derived`), and as LIKE takes it."""

import re
import unicodedata

MAX_WORDS = 8
WORDS_LIMIT = 200
RUN_ID = re.compile(r"run_[0-9a-z]{0,36}", re.IGNORECASE)
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")


def decoded(words: str) -> str:
    r"""With `\u4f60` read as the character that it stands for, as it is copied from JSON."""
    plain = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), words)
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def searchable(words: str) -> str:
    """As the database's function of the same name."""
    if words.isascii():
        return words.lower()
    # Character by character: PostgreSQL lowers each by itself, Python a word as a whole.
    folded = (char.lower()[0] for char in unicodedata.normalize("NFKC", words))
    return "".join(char if char < "\x80" else f"~{ord(char):x}" for char in folded)


def wanted_words(query: str) -> list[str]:
    """The words that a run must all contain, each as a part of its text; the rest of too many counts as one."""
    words = query.replace("\0", "").split(None, MAX_WORDS - 1)
    return [searchable(word) for word in words]
