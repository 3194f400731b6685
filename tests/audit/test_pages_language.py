"""The pages in Simplified Chinese, and the catalogue behind them."""

import ast
import gettext
import re
from collections.abc import Iterator

import pytest
from django.test import Client

from superbiz.env import BASE_DIR
from tests.audit.told_runs import told_run
from tests.factories import UserFactory

CATALOGUE = BASE_DIR / "locale" / "zh_Hans" / "LC_MESSAGES"
ENTRY = re.compile(r'^msgid ((?:".*"\n)+)(?:msgid_plural (?:".*"\n)+)?msgstr(?:\[0\])? ((?:".*"\n?)+)', re.MULTILINE)


def text_of(literals: str) -> str:
    return "".join(ast.literal_eval(line) for line in literals.strip().splitlines())


def entries() -> dict[str, str]:
    source = (CATALOGUE / "django.po").read_text(encoding="utf-8")
    return {text_of(found[1]): text_of(found[2]) for found in ENTRY.finditer(source)}


def test_every_message_has_a_translation_with_the_same_placeholders() -> None:
    messages = {message: words for message, words in entries().items() if message}
    assert len(messages) > 200
    for message, words in messages.items():
        assert words, message
        assert set(re.findall(r"%\(\w+\)s", words)) == set(re.findall(r"%\(\w+\)s", message)), message


def test_the_compiled_catalogue_is_that_of_the_source() -> None:
    with (CATALOGUE / "django.mo").open("rb") as compiled:
        translations = gettext.GNUTranslations(compiled)
    for message, words in entries().items():
        if message:
            assert words in {translations.gettext(message), translations.ngettext(message, message, 1)}, message


def marked_in_templates() -> Iterator[str]:
    for template in (BASE_DIR / "templates").rglob("*.html"):
        yield from re.findall(r'{%\s*translate "((?:[^"\\]|\\.)*)"', template.read_text(encoding="utf-8"))


def marked_in_code() -> Iterator[str]:
    for package in ("superbiz", "audit", "runs", "gatekeeper", "prompts"):
        for module in (BASE_DIR / package).rglob("*.py"):
            for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
                match node:
                    case ast.Call(
                        func=ast.Name(id="_" | "gettext" | "ngettext"), args=[ast.Constant(value=str(text)), *_]
                    ):
                        yield text


def test_what_is_marked_for_translation_is_in_the_catalogue() -> None:
    marked = {*marked_in_templates(), *marked_in_code()}
    assert len(marked) > 300
    assert marked - entries().keys() == set()


@pytest.mark.django_db
def test_pages_come_in_the_readers_language() -> None:
    run = told_run()
    client = Client(headers={"Accept-Language": "zh-CN,zh;q=0.9"})
    client.force_login(UserFactory.create())
    text = client.get(f"/runs/{run.id}/").content.decode()
    assert '<html lang="zh-hans">' in text
    for words in ("答复", "为什么？", "时间线", "全部规则成立", "证据关卡"):
        assert words in text
    assert "Answered" not in text
    assert (
        "完整，哈希链有效"
        in client.get(
            f"/runs/{run.id}/record/", headers={"HX-Request": "true", "HX-Target": "record-check"}
        ).content.decode()
    )
