import pytest

from runs.knowledge.chunking import BadDocument, Document, chunk, read_markdown


def test_front_matter_gives_title_and_names() -> None:
    document = read_markdown(
        "pool",
        "---\ntitle: Pool exhausted\nalerts: [PoolExhausted, PoolWaiting]\nerror_codes: [53300, SQLSTATE 53300]\n"
        "aliases: 连接池耗尽\nowner: nobody\n---\n# Pool exhausted\n\nText.\n",
    )
    assert document == Document(
        "pool",
        "Pool exhausted",
        "# Pool exhausted\n\nText.",
        alerts=("PoolExhausted", "PoolWaiting"),
        error_codes=("53300", "SQLSTATE 53300"),
        aliases=("连接池耗尽",),
    )


@pytest.mark.parametrize(
    ("text", "fallback", "title"),
    [
        ("# Heading\n\ntext", None, "Heading"),
        ("text\n\n# Later #\n", "file-name", "Later"),
        ("text only", "file-name", "file-name"),
        ("---\n---\n# Heading", None, "Heading"),
        ("---\r\ntitle: Windows\r\n---\r\ntext\r\nmore", None, "Windows"),
        ("\ufeff---\ntitle: Marked\n---\ntext", None, "Marked"),
        ("---\n\na rule, then text", "file-name", "file-name"),
    ],
)
def test_the_title_is_found_where_there_is_one(text: str, fallback: str | None, title: str) -> None:
    document = read_markdown("d", text, fallback_title=fallback)
    assert document.title == title
    assert "\r" not in document.text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("text without a title", "no title"),
        ("---\ntitle: [unclosed\n---\ntext", "not valid YAML"),
        ("---\n- a\n- b\n---\ntext", "mapping"),
        ("---\ntitle: x\nalerts: {a: b}\n---\n", "alerts"),
        ("---\ntitle: x\nalerts: [{a: b}]\n---\n", "alerts"),
        ("---\ntitle: !!python/object/apply:os.getcwd []\n---\n", "not valid YAML"),
        ("# a\0b", "NUL"),
        ("# x\n" + "y" * 1_000_001, "longer"),
    ],
)
def test_a_bad_document_says_why(text: str, told: str) -> None:
    with pytest.raises(BadDocument, match=told):
        read_markdown("d", text)


def passages(text: str, title: str = "Title", limit: int = 900) -> list[tuple[str, str]]:
    return [(piece.section, piece.text) for piece in chunk(Document("d", title, text), limit=limit)]


def test_passages_follow_headings() -> None:
    text = "# Title\n\nIntro.\n\n## Fix\n\nOne.\n\n### By hand\n\nTwo.\n\n## Last\n\nThree."
    assert passages(text) == [("", "Intro."), ("Fix", "One."), ("Fix > By hand", "Two."), ("Last", "Three.")]


def test_paragraphs_are_joined_while_they_fit() -> None:
    assert passages("one\ntwo\n\nthree\n\nfour", limit=14) == [("", "one\ntwo\n\nthree"), ("", "four")]


def test_a_code_block_stays_whole_and_its_comments_are_no_headings() -> None:
    code = "```sh\n# not a heading\n\nls\n~~~\n```"
    assert passages(f"{'a' * 40}\n\n{code}\n\nafter", limit=50) == [("", "a" * 40), ("", f"{code}\n\nafter")]


def test_an_unclosed_code_block_ends_with_the_document() -> None:
    assert passages("```\n# x\n\ny") == [("", "```\n# x\n\ny")]


def test_what_is_too_long_alone_is_cut_at_lines_or_words_and_nothing_is_lost() -> None:
    text = "\n".join(f"- step {i} of a long list" for i in range(60)) + "\n\n" + "word " * 300 + "\n\n" + "x" * 500
    pieces = [text for _, text in passages(text, limit=200)]
    assert max(map(len, pieces)) <= 200
    assert "".join("".join(pieces).split()) == "".join(text.split())


@pytest.mark.parametrize("text", ["", "\n\n", "# Title", "## A\n\n## B"])
def test_a_document_without_text_has_no_passages(text: str) -> None:
    assert passages(text) == []


def test_ids_count_on_from_zero() -> None:
    assert [piece.chunk_id for piece in chunk(Document("d", "T", "a\n\n## B\n\nb"))] == ["d#0", "d#1"]
