"""The pages of rules in the admin: what they show, what they refuse, and that nothing typed is lost."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client

from gatekeeper import rulesets
from gatekeeper.changes import Changes, RuleChange
from gatekeeper.models import Rule, RuleProposal, RuleSet
from gatekeeper.rules import CODES, GK005, GK007
from gatekeeper.types import RuleMode, RuleSetting
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

BASE = "/admin/gatekeeper/"


@pytest.fixture(autouse=True)
def _shipped_rules() -> None:
    rulesets.sync()


def rule_admin(username: str, **changes: object) -> User:
    user: User = UserFactory.create(username=username, is_staff=True, **changes)
    user.user_permissions.add(Permission.objects.get(codename="change_rule"))
    return user


@pytest.fixture
def anna() -> User:
    return rule_admin("anna")


@pytest.fixture
def client(anna: User) -> Client:
    return client_of(anna)


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def now() -> int:
    return rulesets.newest_row().number


def setting(code: str) -> RuleSetting:
    return next(rule for rule in rulesets.current().rules if rule.code == code)


def sent(code: str, **changes: object) -> dict[str, object]:
    """What the form of a rule sends when nothing but `changes` was touched."""
    rule = setting(code)
    params = {f"param_{name}": value for name, value in rule.params.items()}
    told = Rule.objects.get(code=code).told
    fields = {"mode": rule.mode.value, "severity": rule.severity.value, "description": told, "shown": now()}
    return fields | params | {"reason": "Too strict on Tuesday"} | changes


def edit(client: Client, code: str, **changes: object) -> RuleProposal:
    answer = client.post(f"{BASE}rule/{code}/change/", sent(code, **changes))
    assert answer.status_code == 302, answer.content.decode()
    proposal = RuleProposal.objects.latest("id")
    assert answer["Location"] == f"{BASE}ruleproposal/{proposal.pk}/change/"
    return proposal


def text_of(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(f"{BASE}{path}")
    assert answer.status_code == status
    return answer.content.decode()


# ---- looking ----------------------------------------------------------------------------------------------------


def test_the_list_shows_every_rule_as_it_is_and_the_set_in_force(
    client: Client, django_assert_max_num_queries: Callable[[int], object]
) -> None:
    rulesets.save_change(now(), [replace(setting(GK007), mode=RuleMode.OFF)], by=None, reason="Noise.")
    with django_assert_max_num_queries(12):  # type: ignore[attr-defined]
        text = text_of(client, "rule/")
    assert all(code in text for code in CODES)
    assert f"Rule set {now()}" in text
    assert "Noise." in text
    assert "floor of safety is lowered" not in text


def test_who_may_only_look_gets_no_form(client: Client) -> None:
    reader = UserFactory.create(is_staff=True)
    reader.user_permissions.add(Permission.objects.get(codename="view_rule"))
    text = text_of(client_of(reader), f"rule/{GK005}/change/")
    assert "min_chars" in text
    assert "<textarea" not in text
    assert client_of(reader).post(f"{BASE}rule/{GK005}/change/", sent(GK005, mode="OFF")).status_code == 403
    assert RuleProposal.objects.count() == 0


def test_texts_of_people_are_shown_as_text(client: Client) -> None:
    proposal = edit(client, GK007, description="<script>alert(1)</script>", reason="<b>why</b>")
    text = text_of(client, f"ruleproposal/{proposal.pk}/change/")
    assert "<script>alert" not in text
    assert "<b>why" not in text


# ---- editing ----------------------------------------------------------------------------------------------------


def test_an_edit_is_shown_before_it_is_made(client: Client) -> None:
    before = now()
    proposal = edit(client, GK007, mode="SHADOW", param_ignored_names="k8s istio", description="Ours.")
    assert proposal.changes["rules"] == {
        GK007: {
            "mode": "SHADOW",
            "severity": None,
            "params": {"ignored_names": "k8s istio"},
            "description": "Ours.",
        }
    }
    text = text_of(client, f"ruleproposal/{proposal.pk}/change/")
    for each in ("<ins>shadow</ins>", "<ins>k8s istio</ins>", "<ins>Ours.</ins>", 'value="Too strict on Tuesday"'):
        assert each in text
    assert now() == before


def test_saving_makes_a_set_and_an_entry_in_the_rules_history(client: Client, anna: User) -> None:
    before, proposal = now(), edit(client, GK007, mode="SHADOW")
    answer = client.post(
        f"{BASE}ruleproposal/{proposal.pk}/change/", {"shown": before, "reason": "It fires on versions"}
    )
    assert answer["Location"] == f"{BASE}ruleset/number/{before + 1}/"
    row = RuleSet.objects.get(number=before + 1)
    assert (row.created_by, row.reason, setting(GK007).mode) == (anna, "It fires on versions", RuleMode.SHADOW)
    entry = LogEntry.objects.get(object_id=GK007)
    assert entry.user == anna
    assert entry.change_message == f"mode: ENFORCED → SHADOW. Rule set {row.number}. Why: It fires on versions"
    assert "It fires on versions" in text_of(client, f"rule/{GK007}/history/")
    assert "It was saved" in text_of(client, f"ruleproposal/{proposal.pk}/change/")


@pytest.mark.parametrize(
    ("code", "changes", "said"),
    [
        (GK007, {"reason": "", "mode": "OFF"}, "This field is required."),
        (GK007, {"mode": "SOMETIMES"}, "Select a valid choice."),
        (GK005, {"param_min_chars": "many"}, "Enter a whole number."),
        (GK005, {"param_min_chars": "-1"}, "greater than or equal to 0"),
        (GK007, {}, "Nothing would change"),
        (GK007, {"mode": "OFF", "shown": 10**9}, "There is no rule set"),
        (GK005, {"mode": "SHADOW"}, "Only a superuser may lower the floor of safety"),
    ],
)
def test_what_cannot_be_used_comes_back_with_a_sentence_and_all_that_was_typed(
    client: Client, code: str, changes: dict[str, object], said: str
) -> None:
    typed = sent(code, **changes)
    answer = client.post(f"{BASE}rule/{code}/change/", typed)
    text = answer.content.decode()
    assert answer.status_code == 422
    assert said in text
    assert typed["reason"] == "" or f'value="{typed["reason"]}"' in text
    assert RuleProposal.objects.count() == 0


def test_a_description_of_ours_survives_a_sync_and_emptied_gives_way_to_the_shipped_one(client: Client) -> None:
    shipped = Rule.objects.get(code=GK007).description
    for typed, told in (("Ours.", "Ours."), ("", shipped)):
        proposal = edit(client, GK007, description=typed)
        client.post(f"{BASE}ruleproposal/{proposal.pk}/change/", {"shown": now(), "reason": "Words."})
        rulesets.sync()
        assert Rule.objects.get(code=GK007).told == told


# ---- two people at once -----------------------------------------------------------------------------------------


def test_the_second_of_two_sees_what_the_first_did_and_keeps_what_they_wrote(client: Client) -> None:
    bert = client_of(rule_admin("bert"))
    shown = now()
    hers, his = edit(client, GK007, mode="SHADOW"), edit(bert, GK005, param_min_chars=20, reason="Short ones mislead")
    bert.post(f"{BASE}ruleproposal/{his.pk}/change/", {"shown": shown, "reason": "Short ones mislead"})

    address = f"{BASE}ruleproposal/{hers.pk}/change/"
    answer = client.post(address, {"shown": shown, "reason": "Typed for long"})
    text = answer.content.decode()
    assert answer.status_code == 409
    for each in ("Nothing was changed.", "Short ones mislead", "by bert", 'value="Typed for long"'):
        assert each in text
    assert now() == shown + 1

    assert client.post(address, {"shown": now(), "reason": "Typed for long"}).status_code == 302
    assert setting(GK005).params == {"min_chars": 20}
    assert setting(GK007).mode is RuleMode.SHADOW


def test_what_replaces_a_change_of_somebody_else_is_marked(client: Client) -> None:
    bert = client_of(rule_admin("bert"))
    shown = now()
    hers, his = edit(client, GK007, mode="SHADOW"), edit(bert, GK007, mode="OFF")
    bert.post(f"{BASE}ruleproposal/{his.pk}/change/", {"shown": shown, "reason": "Off."})
    text = text_of(client, f"ruleproposal/{hers.pk}/change/")
    assert "changed by somebody else meanwhile" in text
    assert "<del>off</del>" in text


# ---- the floor of safety ----------------------------------------------------------------------------------------


def lowered_by_superuser() -> RuleProposal:
    chief = UserFactory.create(is_superuser=True, is_staff=True)
    changes = Changes(rules={GK005: RuleChange(mode=RuleMode.SHADOW)})
    return rulesets.propose(now(), changes, by=chief, reason="Trying.")


def test_a_proposal_below_the_floor_is_no_rule_admins_to_save(client: Client) -> None:
    before, proposal = now(), lowered_by_superuser()
    text = text_of(client, f"ruleproposal/{proposal.pk}/change/")
    assert "Only a superuser may save it." in text
    assert 'id="save"' not in text
    answer = client.post(f"{BASE}ruleproposal/{proposal.pk}/change/", {"shown": before, "reason": "Please"})
    assert answer.status_code == 422
    assert now() == before


def test_a_lowered_floor_stands_on_the_rules_page_until_it_is_restored(client: Client) -> None:
    before, proposal = now(), lowered_by_superuser()
    rulesets.save_proposal(proposal, before, by=proposal.created_by, reason="Trying.")
    assert "The floor of safety is lowered." in text_of(client, "rule/")
    assert "below the floor of safety" in text_of(client, "ruleset/")
    answer = client.post(f"{BASE}ruleset/number/{before}/restore/")
    back = RuleProposal.objects.latest("id")
    assert answer["Location"] == f"{BASE}ruleproposal/{back.pk}/change/"
    client.post(answer["Location"], {"shown": now(), "reason": "Enough."})
    assert "The floor of safety is lowered." not in text_of(client, "rule/")


# ---- rule sets --------------------------------------------------------------------------------------------------


def test_restoring_makes_a_new_number_and_says_of_which_it_is(client: Client) -> None:
    before, proposal = now(), edit(client, GK007, mode="OFF")
    client.post(f"{BASE}ruleproposal/{proposal.pk}/change/", {"shown": before, "reason": "Off."})
    answer = client.post(f"{BASE}ruleset/number/{before}/restore/")
    client.post(answer["Location"], {"shown": before + 1, "reason": "It was needed."})
    made = RuleSet.objects.get(number=before + 2)
    assert (made.restores, made.digest) == (before, RuleSet.objects.get(number=before).digest)
    assert f"restores {before}" in text_of(client, "ruleset/")
    again = client.post(f"{BASE}ruleset/number/{before}/restore/")
    assert again.status_code == 422
    assert "Nothing would change" in again.content.decode()


def test_a_sets_page_stands_at_its_number_and_shows_what_it_changed(client: Client) -> None:
    before, proposal = now(), edit(client, GK007, mode="OFF")
    client.post(f"{BASE}ruleproposal/{proposal.pk}/change/", {"shown": before, "reason": "Off."})
    text = text_of(client, f"ruleset/number/{before + 1}/")
    assert "<del>enforced</del>" in text
    row = RuleSet.objects.get(number=before + 1)
    assert client.get(f"{BASE}ruleset/{row.pk}/change/")["Location"] == f"{BASE}ruleset/number/{row.number}/"
    text_of(client, f"ruleset/number/{before + 9}/", 404)


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("?a=1&b=2", 200, "<ins>off</ins>"),
        ("?a=2&b=1", 200, "<ins>enforced</ins>"),
        ("?a=1&b=1", 200, "The two sets hold the same rules."),
        ("", 200, "<ins>off</ins>"),
        ("?a=1&b=99", 400, "There is no rule set 99."),
        ("?a=x", 400, "There are no such rule sets."),
    ],
)
def test_two_sets_are_compared_by_address(client: Client, query: str, status: int, said: str) -> None:
    assert now() == 1
    proposal = edit(client, GK007, mode="OFF")
    client.post(f"{BASE}ruleproposal/{proposal.pk}/change/", {"shown": 1, "reason": "Off."})
    assert said in text_of(client, f"ruleset/compare/{query}", status)


def test_no_address_is_an_error_of_the_server(client: Client) -> None:
    for path in ("ruleproposal/x/change/", "ruleproposal/99999999999999999999/change/", "ruleset/x/change/"):
        text_of(client, path, 404)
    for model in ("ruleproposal", "ruleset"):
        text_of(client, f"{model}/{'0' * 12}{'9' * 5000}/change/", 404)
    text_of(client, "ruleset/number/99999999999999999999/", 404)
    text_of(client, "ruleset/?page=x")
