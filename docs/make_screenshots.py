"""Screenshots of every page of a running server, in light and dark and on a narrow screen.

    .venv/bin/python docs/make_screenshots.py http://127.0.0.1:8000 --user NAME --password WORD [--out FOLDER]
    .venv/bin/python docs/make_screenshots.py http://127.0.0.1:8000 --link SIGN-IN-LINK [--out FOLDER]

Run pages are those of the newest run in the list, or of `--run ID`. Needs Debian's chromium. The pictures of the
docs are made with `--only run-top-light run-proof-light run-tool-dark run-narrow run-top-chinese`, those of the list on
the seeded runs of `bench.seeding` with `--only runs-search-light runs-search-dark runs-search-narrow
runs-attention-light`, those of prompts with `--only prompt-page-light prompt-diff-light prompt-activation-dark
prompt-dry-run-light prompt-log-light prompt-diff-narrow`: these first edit, try, activate and roll back the verifier's
prompt on that server, as an administrator would, so take one that is only for pictures. The same holds for those of
rules, `--only rules-list-light rules-preview-light rules-diff-light rules-rule-dark`: these try, lower and
restore GK005 on that server, which should have some concluded runs. `--only compare-light compare-narrow
run-again-dark` first runs that run again; on a server without the recording that `make demo` reads, the two come out
differently. Those of chat, `--only chat-empty-light chat-running-light chat-answered-light chat-answered-dark
chat-answered-narrow`, ask questions on that server; those of the inbox are `--only alerts-light alerts-narrow`, those
of knowledge `--only knowledge-light knowledge-document-light`. All are made on a server that `make demo` started.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
SCREENS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1440, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1440, "height": 900}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
    "chinese": {"color_scheme": "light", "viewport": {"width": 1440, "height": 900}, "locale": "zh-CN"},
}


def sign_in(page: Page, base: str, options: argparse.Namespace) -> None:
    if options.link:
        page.goto(options.link)
        page.get_by_role("button", name="Sign in").click()
    else:
        page.goto(f"{base}/sign-in/")
        page.get_by_label("Username").fill(options.user)
        page.get_by_label("Password").fill(options.password)
        page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector("#run-list")


def signed_out_pages(base: str) -> Iterator[tuple[str, str]]:
    yield "sign-in", f"{base}/sign-in/"
    yield "sign-in-link-gone", f"{base}/sign-in/no-such-token/"


def address_of_run(page: Page, base: str, options: argparse.Namespace) -> str:
    if options.run:
        return f"{base}/runs/{options.run}/"
    page.goto(f"{base}/")
    path = page.locator("#run-rows [data-row]").first.get_attribute("href")
    return f"{base}{path}"


@dataclass(frozen=True)
class Album:
    """Where pictures go, and which are wanted; none named means all."""

    folder: Path
    only: frozenset[str]

    def wants(self, beginning: str | tuple[str, ...]) -> bool:
        """Whether any picture of that beginning, or of one of them, is to be taken."""
        return not self.only or any(name.startswith(beginning) for name in self.only)

    def shoot(self, page: Page, name: str, *, full_page: bool = True) -> None:
        if not self.only or name in self.only:
            page.screenshot(path=self.folder / f"{name}.png", full_page=full_page)


def shoot_list(page: Page, base: str, album: Album, screen: str) -> None:
    """The first screenful of each view, once its figures are there."""
    views = {
        "runs": "",
        "runs-search": "q=certificate+checkout",
        "runs-attention": "view=attention&trigger=MANUAL",
        "runs-longest": "sort=longest&last=30d",
    }
    for name, query in views.items():
        if album.wants(f"{name}-"):
            page.goto(f"{base}/?{query}")
            page.wait_for_selector(".figures:not(.figures-waiting)")
            album.shoot(page, f"{name}-{screen}", full_page=False)
    page.goto(f"{base}/?q=no+such+run+anywhere&since=yesterday&label=service%3Dcheckout-api")
    album.shoot(page, f"runs-no-match-{screen}")


def shoot_run(page: Page, address: str, album: Album, screen: str) -> None:
    page.goto(address)
    album.shoot(page, f"run-{screen}")
    page.locator(".proof > summary").first.click()
    album.shoot(page, f"run-proof-{screen}")
    album.shoot(page, f"run-top-{screen}", full_page=False)
    page.goto(address)
    for name, words in (("tool", "Tool call"), ("gate", "Evidence gate"), ("step", "Model step")):
        page.locator("#timeline [data-row]").filter(has_text=words).last.click()
        page.wait_for_selector("#panel [data-panel]")
        page.wait_for_timeout(200)
        album.shoot(page, f"run-{name}-{screen}")
    reading = page.locator("[data-restricted]")
    if reading.count():
        reading.click()
        reading.wait_for(state="detached")
        album.shoot(page, f"run-reasoning-{screen}")


def tell_again_story(page: Page, address: str) -> str:
    """Run it again and wait for the end. Returns the address of the new run."""
    page.goto(address)
    page.get_by_role("button", name="Run again").click()
    page.wait_for_url(lambda url: url != address)
    page.get_by_role("link", name="Compare", exact=True).wait_for()
    return page.url


def shoot_again(page: Page, again: str, album: Album, screen: str) -> None:
    page.goto(again)
    album.shoot(page, f"run-again-{screen}", full_page=False)
    page.get_by_role("link", name="compare the two").first.click()
    page.wait_for_selector(".comparison")
    album.shoot(page, f"compare-{screen}", full_page=screen != "narrow")


def shoot_alerts(page: Page, base: str, album: Album, screen: str) -> None:
    """The inbox and the page of its first alert."""
    page.goto(f"{base}/alerts/")
    album.shoot(page, f"alerts-{screen}", full_page=False)
    if album.wants("alert-"):
        page.locator("#alert-rows [data-row]").first.click()
        page.wait_for_selector(".history")
        album.shoot(page, f"alert-{screen}")


def shoot_knowledge(page: Page, base: str, album: Album, screen: str) -> None:
    """The list, a search, and the first of its passages in its document."""
    page.goto(f"{base}/knowledge/")
    album.shoot(page, f"knowledge-{screen}", full_page=False)
    page.goto(f"{base}/knowledge/?q=connection+pool+exhausted")
    album.shoot(page, f"knowledge-search-{screen}", full_page=False)
    page.locator(".knowledge-where a").first.click()
    page.wait_for_selector(".passage")
    album.shoot(page, f"knowledge-document-{screen}", full_page=False)


def shoot_chat(page: Page, base: str, album: Album, screen: str) -> None:
    """Begin a conversation and go on with it."""
    page.goto(f"{base}/chat/")
    album.shoot(page, f"chat-empty-{screen}", full_page=False)
    page.locator("#question").fill("Why is checkout-api failing?")
    page.keyboard.press("Enter")
    page.locator(".turn-step-now").wait_for()
    album.shoot(page, f"chat-running-{screen}", full_page=False)
    page.locator(".turn-answer").wait_for()
    page.locator("#question").fill("And what should I check first?")
    page.keyboard.press("Enter")
    page.locator(".turn-answer").nth(1).wait_for()
    album.shoot(page, f"chat-answered-{screen}", full_page=screen != "narrow")


VERIFIER = "/admin/prompts/prompt/chat_verifier"
EDITS = (
    (
        "- that you cannot judge. When in doubt, it is not supported.",
        "- that rests on a search in another window than it speaks of;\n"
        "- that you cannot judge. When in doubt, it is not supported; `reason` says what was missing.",
    ),
    ("`rationale`, two sentences", "`rationale`, one sentence"),
)


def tell_prompt_story(page: Page, base: str) -> str:
    """Edit the verifier's prompt, try it, make it active and take it back. Returns the address of the dry-run."""
    page.goto(f"{base}{VERIFIER}/versions/1/edit/")
    text = page.get_by_label("Text")
    changed = text.input_value()
    for before, after in EDITS:
        changed = changed.replace(before, after)
    text.fill(changed)
    page.get_by_label("Why").fill("Claims about another window passed on Tuesday")
    page.get_by_role("button", name="Save as a new version").click()
    page.goto(f"{base}/prompts/chat_verifier/versions/2/dry-run/")
    page.get_by_label("Incident").select_option("pool-exhausted")
    page.get_by_role("button", name="Try it on the incident").click()
    page.get_by_role("heading", name="Released statements").wait_for()
    dry_run = page.url
    for number, why in ((2, "The dry-run released the same statements"), (1, "It withheld a report on Wednesday")):
        page.goto(f"{base}{VERIFIER}/versions/{number}/activate/")
        page.get_by_label("Why").fill(why)
        page.locator(".steer-button-main").click()
        page.wait_for_url(f"{base}{VERIFIER}/change/")
    return dry_run


def shoot_prompts(page: Page, base: str, album: Album, screen: str, dry_run: str) -> None:
    for name, address in (
        ("page", f"{base}{VERIFIER}/change/"),
        ("diff", f"{base}{VERIFIER}/compare/?a=1&b=2"),
        ("activation", f"{base}{VERIFIER}/versions/2/activate/"),
        ("log", f"{base}/admin/prompts/promptactivation/?prompt__name__exact=chat_verifier"),
        ("dry-run", dry_run),
    ):
        page.goto(address, wait_until="networkidle")
        album.shoot(page, f"prompt-{name}-{screen}")


RULES = "/admin/gatekeeper"
EXCERPTS = f"{RULES}/rule/GK005_EXCERPT_SUPPORTED/change/"


def tell_rules_story(page: Page, base: str) -> str:
    """Ask for longer excerpts, on past runs and then in shadow, and take it back. Returns the preview's address."""
    preview = ""
    for mode, why in (
        ("ENFORCED", "Do long runbook excerpts carry the report?"),
        ("SHADOW", "First see how often it fires"),
    ):
        page.goto(f"{base}{EXCERPTS}")
        page.get_by_label("Parameter min_chars").fill("800")
        page.get_by_label("Mode").select_option(mode)
        page.get_by_label("Why").fill(why)
        page.get_by_role("button", name="Show what would change").click()
        if mode == "ENFORCED":
            page.get_by_role("button", name="Try it on the last 100 runs").click()
            page.get_by_role("link", name="Back to the proposed change").wait_for()
            preview = page.url
    page.get_by_role("button", name="Save as a new rule set").click()
    page.goto(f"{base}{RULES}/ruleset/number/1/")
    page.get_by_role("button", name="Restore rule set 1").click()
    page.get_by_label("Why").fill("It fires on every report")
    page.get_by_role("button", name="Save as a new rule set").click()
    page.wait_for_url(f"{base}{RULES}/ruleset/number/3/")
    return preview


def shoot_rules(page: Page, base: str, album: Album, screen: str, preview: str) -> None:
    for name, address in (
        ("list", f"{base}{RULES}/rule/"),
        ("rule", f"{base}{EXCERPTS}"),
        ("sets", f"{base}{RULES}/ruleset/"),
        ("set", f"{base}{RULES}/ruleset/number/2/"),
        ("diff", f"{base}{RULES}/ruleset/compare/?a=1&b=2"),
        ("proposals", f"{base}{RULES}/ruleproposal/"),
        ("proposal", f"{base}{RULES}/ruleproposal/1/change/"),
        ("preview", preview),
    ):
        page.goto(address, wait_until="networkidle")
        album.shoot(page, f"rules-{name}-{screen}")


def shoot_all(browser: Browser, base: str, album: Album, options: argparse.Namespace) -> None:
    state, dry_run, preview, again = None, "", "", ""
    for screen, settings in SCREENS.items():
        context = browser.new_context(**settings)
        page = context.new_page()
        # A wrong link too many locks this address out for a while.
        if album.wants("sign-in"):
            for name, address in signed_out_pages(base):
                page.goto(address)
                album.shoot(page, f"{name}-{screen}")
        if state is None:
            sign_in(page, base, options)
            state = context.storage_state()
        else:
            context.add_cookies(state["cookies"])
        if album.only and album.wants("prompt-") and screen != "chinese":
            dry_run = dry_run or tell_prompt_story(page, base)
            shoot_prompts(page, base, album, screen, dry_run)
        if album.only and album.wants("rules-") and screen != "chinese":
            preview = preview or tell_rules_story(page, base)
            shoot_rules(page, base, album, screen, preview)
        if album.only and album.wants(("compare-", "run-again-")) and screen != "chinese":
            again = again or tell_again_story(page, address_of_run(page, base, options))
            shoot_again(page, again, album, screen)
        if album.only and album.wants("chat-"):
            shoot_chat(page, base, album, screen)
        if album.wants("alert"):
            shoot_alerts(page, base, album, screen)
        if album.wants("knowledge"):
            shoot_knowledge(page, base, album, screen)
        shoot_list(page, base, album, screen)
        page.goto(f"{base}/runs/run_none/")
        album.shoot(page, f"not-found-{screen}")
        if album.wants("run-"):
            address = address_of_run(page, base, options)
            if screen == "chinese":
                page.goto(address)
                album.shoot(page, "run-top-chinese", full_page=False)
            else:
                shoot_run(page, address, album, screen)
        context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="address of the running server")
    parser.add_argument("--user")
    parser.add_argument("--password")
    parser.add_argument("--link", help="a one-time sign-in link, instead of name and password")
    parser.add_argument("--run", help="id of the run to show")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="take only these pictures")
    options = parser.parse_args()
    if not Path(CHROMIUM).exists():
        sys.exit(f"{CHROMIUM} is missing: install Debian's chromium.")
    options.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        shoot_all(browser, options.base.rstrip("/"), Album(options.out, frozenset(options.only)), options)
        browser.close()


if __name__ == "__main__":
    main()
