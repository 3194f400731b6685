"""What the pages of runs share."""

from django.http import Http404

from runs.access import ApiError, Caller, visible_run
from runs.models import DiagnosisRun


def run_or_404(caller: Caller, run_id: str) -> DiagnosisRun:
    try:
        return visible_run(caller, run_id)
    except ApiError as error:
        raise Http404(error.message) from error
