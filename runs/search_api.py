"""Searching the stored knowledge over HTTP. Mounted under /api by `superbiz.api`.

POST /search/similar   scope runs:read
"""

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Router
from pydantic import Field, StringConstraints

from runs.access import ApiError, caller_auth
from runs.api import Shape, caller_of_view
from runs.library import SHELF
from runs.models.token import Scope
from runs.tools.redaction import clean

MAX_TOP_K = 20

router = Router(tags=["knowledge"], auth=caller_auth, by_alias=True)


class SearchBody(Shape):
    query: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K)] = 5


class HintShape(Shape):
    """`kind`: title, alert, error_code or alias; `matched` is the document's own hint that stands in the query."""

    document_id: str
    kind: str
    matched: str


class HitShape(Shape):
    document_id: str
    chunk_id: str
    title: str
    text: str
    score: float
    relevance_level: str


class SimilarShape(Shape):
    """`l0`: exact hints, which lift a document and never decide. `hits`: passages, the best document first."""

    l0: list[HintShape]
    hits: list[HitShape]


@router.post("/search/similar", response=SimilarShape, summary="Passages of the stored knowledge")
def similar(request: HttpRequest, body: SearchBody) -> Any:
    caller_of_view(request, Scope.RUNS_READ)
    if "\0" in body.query:
        raise ApiError(422, "QUERY_NOT_TEXT", "The query holds a NUL.")
    found = SHELF.index().search(body.query, body.top_k)
    return SimilarShape(
        l0=[HintShape(document_id=hint.document_id, kind=hint.kind, matched=clean(hint.matched)) for hint in found.l0],
        hits=[
            HitShape(
                document_id=hit.document_id,
                chunk_id=hit.chunk_id,
                title=clean(hit.title),
                text=clean(hit.text),
                score=hit.score,
                relevance_level=hit.relevance.value,
            )
            for hit in found.hits
        ],
    )
