import pytest
from django.test import Client

from gatekeeper import rulesets
from gatekeeper.changes import Changes, RuleChange
from gatekeeper.types import RuleMode
from runs.models import ApiToken
from tests.factories import TokenFactory, UserFactory

pytestmark = pytest.mark.django_db

GK009 = "GK009_CURRENT_STATE"


def test_changes_of_all_kinds_stand_in_one_list_with_who_why_and_from_what_to_what() -> None:
    rulesets.sync()
    anna = UserFactory.create(username="anna", is_staff=True, is_superuser=True)
    change = Changes(rules={GK009: RuleChange(mode=RuleMode.SHADOW)})
    proposal = rulesets.propose(rulesets.newest_row().number, change, by=anna, reason="Too strict at night")
    token: ApiToken = TokenFactory.create(name="pager")
    client = Client()
    client.force_login(anna)
    shown = rulesets.newest_row().number
    client.post(f"/admin/gatekeeper/ruleproposal/{proposal.pk}/change/", {"shown": shown, "reason": "Tried and fine"})
    client.post(
        f"/admin/runs/apitoken/{token.pk}/revoke/", {"generation": token.generation, "reason": "Nobody uses it"}
    )
    text = client.get("/admin/admin/logentry/").content.decode()
    assert "<h1>Changes</h1>" in text
    for told in ("anna", GK009, "Tried and fine", "ENFORCED → SHADOW", "pager", "Nobody uses it"):
        assert told in text, told
    found = client.get("/admin/admin/logentry/", {"q": "Nobody uses"}).content.decode()
    assert "pager" in found
    assert GK009 not in found
