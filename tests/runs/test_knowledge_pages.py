"""The pages of the written knowledge, and the way to them from what a run cited."""

import re
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client
from django.utils.html import escape

from runs import library
from runs.knowledge.chunking import Document, read_markdown
from runs.models import DiagnosisRun, KnowledgeChunk, KnowledgeDocument, RunDocument
from runs.pages.markdownhtml import html_of
from tests.audit.told_runs import told_run
from tests.factories import RunFactory, SessionFactory, UserFactory

pytestmark = pytest.mark.django_db

POOL = """---
title: Connection pool exhausted
alerts: [CheckoutHighErrorRate]
error_codes: [1040]
aliases: [pool timeout]
---
# Connection pool exhausted

The pool has no idle connection.

## Mitigation

Roll the release back with `kubectl rollout undo`.

## Long text

More words.
"""


def shelve(document_id: str = "pool", text: str = POOL) -> Document:
    document = read_markdown(document_id, text, fallback_title=document_id)
    library.store(document, source=f"{document_id}.md")
    return document


def cited_by_run(document_id: str, **changes: Any) -> DiagnosisRun:
    run: DiagnosisRun = RunFactory.create(success=True, **changes)
    published = {**(run.published_result or {}), "conclusion": f"The runbook {document_id} says so."}
    published["sourceDocuments"] = [{"documentId": document_id, "title": "A runbook"}]
    DiagnosisRun.objects.filter(id=run.id).update(published_result=published)
    library.note_citations(run.id)
    return run


@pytest.fixture
def reader() -> User:
    user: User = UserFactory.create()
    return user


@pytest.fixture
def client(reader: User) -> Client:
    client = Client()
    client.force_login(reader)
    return client


def text_of(client: Client, address: str, **headers: str) -> str:
    answer = client.get(address, headers=headers)
    assert answer.status_code == 200
    return answer.content.decode()


# ---- the list and the search ----------------------------------------------------------------------------------


def test_an_empty_shelf_says_how_to_fill_it(client: Client) -> None:
    assert "manage.py import_runbooks" in text_of(client, "/knowledge/")


def test_the_list_tells_which_documents_answers_rest_on(client: Client) -> None:
    shelve()
    shelve("unused", "# Nobody reads this\n\nWords.")
    cited_by_run("pool")
    cited_by_run("pool")
    rows = text_of(client, "/knowledge/").split("<tr>")[2:]
    assert [('href="/knowledge/pool/"' in row, "2 runs" in row, "no run" in row) for row in rows] == [
        (True, True, False),
        (False, False, True),
    ]


def test_many_documents_come_in_pages_with_as_many_queries(client: Client, django_assert_num_queries: Any) -> None:
    for number in range(101):
        shelve(f"d{number:03}", f"# Title {number:03}\n\nWords.")
    with django_assert_num_queries(5):
        first = text_of(client, "/knowledge/")
    assert "Page 1 of 2" in first
    assert first.count("data-row") == 100
    last = text_of(client, "/knowledge/?page=2")
    assert "Title 100" in last
    assert text_of(client, "/knowledge/?page=99999").count("data-row") == 1
    assert text_of(client, "/knowledge/?page=x").count("data-row") == 100


def test_a_search_finds_what_a_run_would_be_given(client: Client) -> None:
    shelve()
    text = text_of(client, "/knowledge/?q=CheckoutHighErrorRate+rollout")
    assert "alert name" in text
    assert 'href="/knowledge/pool/?page=1#passage-1"' in text
    assert "kubectl rollout undo" in text
    part = text_of(client, "/knowledge/?q=rollout", **{"HX-Request": "true", "HX-Target": "knowledge"})
    assert "<html" not in part
    assert "No passage fits" in text_of(client, "/knowledge/?q=xylophone")


@pytest.mark.parametrize("words", ["<script>alert(1)</script>", "a" * 5_000, "%F0%9F%98%80", "'%22%5C"])
def test_no_search_breaks_the_page(client: Client, words: str) -> None:
    shelve()
    assert "<script>alert" not in text_of(client, f"/knowledge/?q={words}")


# ---- one document ---------------------------------------------------------------------------------------------


def test_a_document_is_shown_by_passages_with_its_names_and_the_runs_that_cite_it(client: Client) -> None:
    shelve()
    run = cited_by_run("pool")
    text = text_of(client, "/knowledge/pool/")
    for told in ("CheckoutHighErrorRate", "1040", "pool timeout", "Cited by 1 run", f"/runs/{run.id}/"):
        assert told in text
    assert re.search(r'id="passage-1">\s*<h2>Mitigation</h2>', text)
    assert "<code>kubectl rollout undo</code>" in text


def test_runs_that_the_reader_may_not_see_are_counted_and_not_shown(client: Client) -> None:
    shelve()
    other = cited_by_run("pool", session=SessionFactory(owner=UserFactory()))
    text = text_of(client, "/knowledge/pool/")
    assert "Cited by 1 run" in text
    assert other.id not in text
    assert "None that you may see." in text


def test_a_citation_opens_at_its_passage(client: Client) -> None:
    shelve()
    text = text_of(client, "/knowledge/pool/?excerpt=Roll%20the%20%20release%20back")
    assert 'href="#passage-1"' in text
    assert re.search(r'class="passage passage-found" id="passage-1"', text)
    gone = text_of(client, "/knowledge/pool/?excerpt=Words+that+were+changed")
    assert "it was changed since" in gone
    assert "passage-found" not in gone


def test_a_citation_in_a_long_document_opens_on_its_page(client: Client) -> None:
    shelve("long", "# Long\n\n" + "\n\n".join(f"## S{n}\n\nPassage number {n} of many." for n in range(500)))
    text = text_of(client, "/knowledge/long/?excerpt=Passage+number+431+of")
    assert "Page 8 of 9" in text
    assert text.count('class="passage') < 500
    assert 'class="passage passage-found" id="passage-431"' in text


def test_a_document_that_is_not_there_is_404(client: Client) -> None:
    assert client.get("/knowledge/none/").status_code == 404
    assert client.get("/knowledge/%00/").status_code == 400


def test_nobody_reads_it_without_signing_in() -> None:
    shelve()
    for address in ("/knowledge/", "/knowledge/pool/"):
        assert "/sign-in/" in Client().get(address)["Location"]


def test_a_hostile_document_is_only_text(client: Client) -> None:
    shelve(
        "evil",
        "# Evil\n\n<script>alert(1)</script>\n\n[go](javascript:alert(1)) ![i](https://elsewhere.example/p.png)\n\n"
        '<img src=x onerror=alert(1)> \u202eright to left\n\n[a](https://ok.example/ "x\' onclick=y")'
        "\n\npassword=hunter2secret",
    )
    text = text_of(client, "/knowledge/evil/")
    body = text[text.index("<article") : text.index("</article>")]
    assert "<script" not in body
    assert "<img" not in body
    assert "javascript:alert" not in re.sub(r">[^<]*<", "><", body)
    assert "onclick" not in re.sub(r">[^<]*<", "><", body)
    assert "\u202e" not in body
    assert "⟦U+202E⟧" in body
    assert "hunter2secret" not in body
    assert '<a href="https://ok.example/" target="_blank" rel="noopener noreferrer nofollow">' in body


def test_a_document_of_a_megabyte_comes_a_page_at_a_time(client: Client) -> None:
    shelve("big", "# Big\n\n" + "\n\n".join(["word " * 170] * 1_100))
    text = text_of(client, "/knowledge/big/")
    assert len(text) < 200_000
    assert text.count('id="passage-') == 60


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("# Top", "<h3>Top</h3>"),
        ("###### Deep", "<h6>Deep</h6>"),
        ("| a |\n|---|\n| b |", "<td>b</td>"),
        ("```\n<b>x</b>\n```", "&lt;b&gt;x&lt;/b&gt;"),
        ("<b>x</b>", "&lt;b&gt;x&lt;/b&gt;"),
    ],
)
def test_markdown_becomes_plain_html(markdown: str, html: str) -> None:
    assert html in html_of(markdown)


def page_body(client: Client, address: str) -> str:
    text = text_of(client, address)
    return text[text.index("<article") : text.index("</article>")]


def private_key() -> list[str]:
    """Longer than a passage."""
    return [f"{n:02}" + "Kk9" * 20 for n in range(40)]


def shelve_a_key() -> None:
    lines = "\n".join(private_key())
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"
    shelve(
        "keys", f"---\naliases: [token=abc123secret]\n---\n# Rotating keys\n\nReplace it:\n\n```\n{key}\n```\n\nDone.\n"
    )


def test_a_secret_is_masked_before_the_document_is_cut(client: Client) -> None:
    shelve_a_key()
    stored = " ".join([KnowledgeDocument.objects.get().text, *KnowledgeChunk.objects.values_list("text", flat=True)])
    shown = page_body(client, "/knowledge/keys/") + text_of(client, "/knowledge/?q=rotating+keys")
    assert not [line for line in private_key() if line in stored + shown]
    assert "[redacted private key]" in shown
    assert "abc123secret" not in str(KnowledgeDocument.objects.get().hints)


def test_documents_from_before_are_masked_and_cut_again(client: Client) -> None:
    shelve_a_key()
    shelve()
    raw = "# Rotating keys\n\n-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(private_key())
    KnowledgeDocument.objects.filter(id="keys").update(text=raw)
    KnowledgeChunk.objects.filter(document="keys").update(text=private_key()[0])
    untouched = KnowledgeDocument.objects.get(id="pool").imported_at
    import_module("runs.migrations.0011_mask_documents").mask(apps, None)
    assert KnowledgeChunk.objects.get(document="keys").text == "[redacted private key]"
    assert KnowledgeDocument.objects.get(id="pool").imported_at == untouched


def test_a_code_block_of_several_passages_is_code_in_each_on_every_page(client: Client) -> None:
    lines = "\n".join(f"kubectl get pods -n shop{n} # *step* <b>{n}</b>" for n in range(1_500))
    shelve("long", f"# Long\n\n## Fix\n\n```sh\n{lines}\n```\n\nAfter the *code*.\n\n## Next\n\nPlain *words*.\n")
    last = text_of(client, "/knowledge/long/?excerpt=Plain")
    first, end = page_body(client, "/knowledge/long/"), last[last.index("<article") : last.index("</article>")]
    assert first.count("<pre") == 60
    assert "<em>" not in first
    assert "<em>step</em>" not in end
    assert "<em>code</em>" in end
    assert "<em>words</em>" in end


def test_a_table_of_several_passages_has_its_head_in_each(client: Client) -> None:
    rows = "\n".join(f"| what you see {n} | what it means {n} |" for n in range(100))
    shelve("table", f"# Table\n\n| seen | means |\n|---|---|\n{rows}\n\na | b are no cells\n")
    body = page_body(client, "/knowledge/table/")
    assert body.count("<table>") == body.count("<th>seen</th>") == KnowledgeChunk.objects.count() > 2
    assert "<p>a | b are no cells</p>" in body
    assert body.count("what you see") == 100


# ---- from runs ------------------------------------------------------------------------------------------------


def test_what_a_finished_run_publishes_is_counted_once_and_rehearsals_never() -> None:
    told = told_run()
    wanted = {(told.id, source["documentId"]) for source in (told.published_result or {})["sourceDocuments"]}
    assert wanted
    assert set(RunDocument.objects.values_list("run_id", "document_id")) == wanted
    library.note_citations(told.id)
    assert RunDocument.objects.count() == len(wanted)
    DiagnosisRun.objects.filter(id=told.id).update(rehearsal={"version": 1}, trigger="EVAL")
    RunDocument.objects.all().delete()
    library.note_citations(told.id)
    assert not RunDocument.objects.exists()


def test_a_runs_page_leads_from_an_excerpt_to_its_passage(client: Client) -> None:
    output = {"hits": [{"document_id": "pool", "text": "Roll the release back with `kubectl rollout undo`."}]}
    refs = ({"raw_path": "$.hits[0].text", "text": output["hits"][0]["text"], "shown": True, "relevance": "PRECISE"},)
    run = told_run(
        {"tool_name": "lookup_knowledge", "source_kind": "KNOWLEDGE", "output": output, "evidence_refs": refs}
    )
    published: dict[str, Any] = run.published_result or {}
    cited = {"toolName": "lookup_knowledge", "rawPath": "$.hits[0].text", "evidenceExcerpt": "Roll the release back"}
    published["claims"][0]["evidence"] = [{"sourceInvocationId": "inv_aaaaaa", **cited}]
    published["sourceDocuments"] = [{"documentId": "pool", "title": "Pool"}, {"documentId": "../x", "title": "Odd"}]
    DiagnosisRun.objects.filter(id=run.id).update(published_result=published)
    text = text_of(client, f"/runs/{run.id}/")
    assert f'href="{escape("/knowledge/pool/?excerpt=Roll+the+release+back")}"' in text
    assert '<a href="/knowledge/pool/">Pool</a>' in text
    assert "<li>Odd</li>" in text


def test_a_document_taken_away_leaves_the_count_of_what_cited_it() -> None:
    shelve()
    run = cited_by_run("pool", queued_at=datetime(2031, 3, 4, tzinfo=UTC))
    KnowledgeDocument.objects.all().delete()
    assert RunDocument.objects.filter(run=run).exists()
