"""One alert: how it stands, what was sent, its runs, its silences, its earlier episodes."""

from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from runs.access import Caller, visible_runs
from runs.models import Alert, AlertSilence
from runs.pages.hostile import one_line, seen
from runs.pages.inbox import AlertRow, LatestRun, latest_runs, rows_of, silence_of
from runs.pages.links import Linked, linked, safe_address
from runs.pages.words import TRIGGER_WORDS, Words

RUNS_SHOWN = 50
EPISODES_SHOWN = 20
SILENCES_SHOWN = 20
VALUE_CHARS = 2000
SOURCE_WORDS: dict[str, Words] = {
    Alert.Source.ALERTMANAGER: "Alertmanager",
    Alert.Source.GRAFANA: "Grafana",
    Alert.Source.API: _("a request to the API"),
    Alert.Source.CLI: _("the command line"),
}


@dataclass(frozen=True, slots=True)
class HistoryRun:
    run: LatestRun
    trigger: Words


@dataclass(frozen=True, slots=True)
class AlertView:
    """`source`: the alert's address at whoever sent it, empty where it has none that can be followed."""

    row: AlertRow
    fingerprint: str
    sent_by: Words
    group: str
    source: str
    source_text: str
    starts_at: datetime | None
    ends_at: datetime | None
    labels: tuple[tuple[str, Linked], ...]
    annotations: tuple[tuple[str, Linked], ...]
    runs: tuple[HistoryRun, ...]
    silence: AlertSilence | None
    silences: tuple[AlertSilence, ...]
    episodes: tuple[Alert, ...]

    @property
    def open(self) -> bool:
        return any(told.run.open for told in self.runs)


def alert_view(caller: Caller, alert: Alert) -> AlertView:
    now = datetime.now(UTC)
    same = Alert.objects.filter(fingerprint=alert.fingerprint)
    return AlertView(
        row=rows_of(caller, [alert], now)[0],
        fingerprint=alert.fingerprint,
        sent_by=SOURCE_WORDS.get(alert.source, alert.source),
        group=one_line(alert.group_key, 300),
        source=safe_address(alert.generator_url),
        source_text=one_line(alert.generator_url, 300),
        starts_at=alert.starts_at,
        ends_at=alert.ends_at,
        labels=_pairs(alert.labels),
        annotations=_pairs(alert.annotations),
        runs=_history(caller, alert),
        silence=silence_of(alert.fingerprint, now),
        silences=tuple(AlertSilence.objects.filter(fingerprint=alert.fingerprint).order_by("-id")[:SILENCES_SHOWN]),
        episodes=tuple(same.exclude(id=alert.id).order_by("-id")[:EPISODES_SHOWN]),
    )


def _pairs(texts: dict[str, str]) -> tuple[tuple[str, Linked], ...]:
    return tuple((seen(name), linked(texts[name], VALUE_CHARS)) for name in sorted(texts))


def _history(caller: Caller, alert: Alert) -> tuple[HistoryRun, ...]:
    """Runs about this alert in any episode, and the last one of a group that it belonged to."""
    mine = Q(alert__fingerprint=alert.fingerprint) | Q(id=alert.last_run_id)
    newest = visible_runs(caller).filter(mine).order_by("-queued_at", "-id")
    triggers = dict(newest.values_list("id", "trigger")[:RUNS_SHOWN])
    told = latest_runs(caller, list(triggers))
    return tuple(
        HistoryRun(told[run_id], TRIGGER_WORDS.get(trigger, trigger))
        for run_id, trigger in triggers.items()
        if run_id in told
    )
