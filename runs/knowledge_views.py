"""The pages of the written knowledge: what `lookup_knowledge` may find, and which runs cited it."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from runs.access import Caller
from runs.models import KnowledgeDocument
from runs.pages import knowledgepage
from runs.pages.view import page_view, target_of


def _page_number(request: HttpRequest) -> int:
    """From the address; what is no number counts as the first page."""
    text = request.GET.get("page", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 1


@require_safe
@page_view
def knowledge_list(request: HttpRequest, _caller: Caller) -> HttpResponse:
    """Every document by title or, with `?q=`, what a search for these words finds."""
    words = request.GET.get("q", "").replace("\0", "").strip()[: knowledgepage.SEARCH_LIMIT]
    context: dict[str, Any] = {"words": words, "limit": knowledgepage.SEARCH_LIMIT}
    if words:
        context["found"] = knowledgepage.search(words)
    else:
        context["page"] = knowledgepage.document_page(_page_number(request))
    part = target_of(request) == "knowledge"
    return render(request, "knowledge/parts/found.html" if part else "knowledge/list.html", context)


@require_safe
@page_view
def knowledge_document(request: HttpRequest, caller: Caller, document_id: str) -> HttpResponse:
    """`?excerpt=` opens it at the passage that holds these words, as links from citations do."""
    found = KnowledgeDocument.objects.filter(id=document_id).first() if "\0" not in document_id else None
    if found is None:
        raise Http404(_("There is no such document now. A run's own record keeps the passages that it read."))
    excerpt = request.GET.get("excerpt", "").replace("\0", "")[: knowledgepage.EXCERPT_LIMIT]
    document = knowledgepage.document_view(caller, found, number=_page_number(request), excerpt=excerpt)
    return render(request, "knowledge/document.html", {"document": document, "excerpt": excerpt})
