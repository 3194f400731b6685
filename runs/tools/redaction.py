"""Masks secrets in text that came from a source, before a model, a ledger or a page sees it.

`clean` is for one string, `clean_json` for a whole JSON value. Everything that is not a secret stays
verbatim, so that an excerpt of cleaned evidence can be compared character by character. Masked values
read `[redacted]`; the name beside them stays, because "a password was in the URL" is itself evidence.
"""

import re
from typing import Any

MASK = "[redacted]"

# CSI, OSC (with BEL or ST) and two-character escapes: ECMA-48.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

# Every branch of `_SECRETS` needs one of these; most lines have none and are done after this one look.
_MAYBE = re.compile(
    r"pass|pwd|secret|token|api.?key|access.?key|private.?key|credential|identified|sig|auth|bearer|basic|cookie"
    r"|key=|://\S{0,520}@|akia|asia|eyj|gh[pousr]_|github_pat|glpat|xox|sk[-_]|rk_|aiza|hooks\.slack",
    re.IGNORECASE,
)

_NAME = (
    r"(?:passw(?:or)?d|passwd|passphrase|pwd|secret(?:[_.-]?(?:access[_.-]?)?key)?|api[_.-]?key|access[_.-]?key(?:[_.-]?id)?"
    r"|private[_.-]?key|credentials?|token|auth[_.-]?key|x-amz-signature|x-amz-credential|signature|\bsig)"
)
# A bare value ends at white space, a quote, `&` or `<`; at a comma or closing sign only where something new follows.
_BARE = r"(?:(?![,;)\]}|]*(?:\s|$|[\w.-]{1,40}[=:]))[^\s\"'`&<>\\])+"
# A quoted value may have lost its end to a cut.
_QUOTED = r"\"(?:[^\"\\]|\\.)*(?:\"|\Z)|'(?:[^'\\]|\\.)*(?:'|\Z)"

# What comes before the certain part of a secret is bounded: texts of a megabyte come in, and a part without an end
# would be looked for from every place that looks like its beginning.
_SECRETS = re.compile(
    rf"""
      (?P<pem>-----BEGIN\ [A-Z0-9 ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z0-9 ]*PRIVATE\ KEY-----|\Z))
    | (?P<url_head>\b[a-z][a-z0-9+.-]{{0,20}}://[^\s/@:'"]{{0,200}}:)
      (?!\d{{1,5}}(?:[/?\#\s,]|$))(?P<url_password>[^\s'"<>]{{1,300}})(?=@)
    | (?P<user_head>\bhttps?://)(?P<user_token>[^\s/@:'"]{{16,200}})(?=@)
    | (?P<auth_head>\b(?:proxy-)?authorization\\?["']?\s{{0,40}}[:=]\s{{0,40}}\\?["']?
        (?:(?:bearer|basic|digest|token|apikey|negotiate|aws4-hmac-sha256)\s{{1,40}}))
      (?P<auth_value>[^\r\n"'\\]+)
    | (?P<plain_auth_head>\b(?:proxy-)?authorization\\?["']?\s{{0,40}}[:=]\s{{0,40}}\\?["']?)
      (?P<plain_auth>(?=[^\s"']{{0,300}}\d)[^\s"'\\,;]{{16,}})
    | (?P<scheme_head>\b(?:bearer|basic)\s{{1,40}})
      (?P<scheme_value>(?=[A-Za-z0-9._~+/-]{{0,300}}[\d=])[A-Za-z0-9._~+/-]{{12,}}=*)
    | (?P<cookie_head>\b(?:set-)?cookie\\?["']?\s{{0,40}}:\s{{0,40}}\\?["']?)
      (?P<cookie_value>[^\r\n"'\\=]{{0,300}}=[^\r\n"'\\]*)
    | (?P<flag_head>--?(?:[a-z]+-)?(?:password|passwd|token|secret|api-key)\s{{1,40}})
      (?P<flag_value>{_QUOTED}|[^\s"'-]\S*)
    | (?P<sql_head>\b(?:identified\s+by|(?:with|user\s+\S+)\s+password|password)\s+)(?P<sql_value>'(?:[^'\\]|\\.|'')*')
    | (?P<pair_head>(?P<pair_name>{_NAME})(?P<pair_sign>\\?["']?\s?(?::|=>|=|%3D)\s?))
      (?:(?P<pair_open>\\")(?P<pair_escaped>(?:[^"\\]|\\[^"])*)(?=\\")|(?P<pair_quoted>{_QUOTED})|(?P<pair_value>{_BARE}))
    | (?P<query_head>[?&]key=)(?P<query_value>[A-Za-z0-9_-]{{12,}})
    | (?P<shape>\b(?:AKIA|ASIA)[A-Z0-9]{{16}}\b
        |\beyJ[A-Za-z0-9_-]{{8,2000}}\.eyJ[A-Za-z0-9_-]{{5,}}(?:\.[A-Za-z0-9_-]*)?
        |\bgh[pousr]_[A-Za-z0-9]{{30,}}|\bgithub_pat_[A-Za-z0-9_]{{30,}}|\bglpat-[A-Za-z0-9_-]{{20,}}
        |\bxox[abeprs]-[A-Za-z0-9-]{{10,}}|\bsk-(?=[A-Za-z0-9_-]{{0,300}}\d)[A-Za-z0-9_-]{{20,}}|\b[sr]k_(?:live|test)_[A-Za-z0-9]{{10,}}
        |\bAIza[A-Za-z0-9_-]{{35}}|(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{{20,}})
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)

# Values that say something about a secret and are none.
_NO_SECRET = re.compile(
    r"(?:null|none|nil|true|false|yes|no|undefined|empty|unset|missing|required|invalid|expired|changed|incorrect|wrong"
    r"|denied|failed|rejected|unknown|not|is|was|has|must|should|cannot|for|of|in|the|a|an"
    r"|\*+|x{3,}|\[?(?:redacted|masked|hidden|filtered)\]?|<[^>]*>|\$\{[^}]*\}?|\$\([^)]*\)?|\{\{.*|%s|\?)\W*",
    re.IGNORECASE,
)
_SHORTEST_SPOKEN_TOKEN = 8


def clean(text: str) -> str:
    """`text` without terminal codes and characters PostgreSQL cannot store, and with its secrets masked."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = _UNSTORABLE.sub("�", text)
    if _MAYBE.search(text) is None and "PRIVATE KEY" not in text:
        return text
    return _SECRETS.sub(_masked, text)


def clean_json(value: Any) -> Any:
    """The same value with every string in it cleaned, keys included. A value under a secret's name is masked."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): _clean_member(str(key), member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    return value


_NAME_ALONE = re.compile(rf"(?:.*[_.\-a-z0-9])?{_NAME}", re.IGNORECASE)


def _clean_member(key: str, member: Any) -> Any:
    if isinstance(member, str) and member and _NAME_ALONE.fullmatch(key) and not _NO_SECRET.fullmatch(member):
        return MASK
    return clean_json(member)


def _masked(match: re.Match[str]) -> str:
    kind = match.lastgroup
    groups = match.groupdict()
    if groups["pem"] is not None:
        return "[redacted private key]"
    if groups["shape"] is not None:
        return MASK
    if groups["pair_head"] is not None:
        return _masked_pair(match)
    for head, value in (
        ("url_head", "url_password"),
        ("user_head", "user_token"),
        ("auth_head", "auth_value"),
        ("plain_auth_head", "plain_auth"),
        ("scheme_head", "scheme_value"),
        ("cookie_head", "cookie_value"),
        ("flag_head", "flag_value"),
        ("sql_head", "sql_value"),
        ("query_head", "query_value"),
    ):
        if groups[head] is not None:
            return f"{groups[head]}{_keep_if_harmless(groups[value])}"
    raise AssertionError(f"a branch of the secrets pattern has no mask: {kind}")


def _keep_if_harmless(value: str) -> str:
    return value if _NO_SECRET.fullmatch(value) else MASK


def _masked_pair(match: re.Match[str]) -> str:
    name, sign = match["pair_name"].lower(), match["pair_sign"]
    if match["pair_escaped"] is not None:
        return f"{match['pair_head']}{match['pair_open']}{_keep_if_harmless(match['pair_escaped'])}"
    if match["pair_quoted"] is not None:
        quoted = match["pair_quoted"]
        inner = quoted[1:].removesuffix(quoted[0])
        return (
            match[0]
            if not inner or _NO_SECRET.fullmatch(inner) or _spoken(name, sign, inner)
            else (f"{match['pair_head']}{quoted[0]}{MASK}{quoted[0]}")
        )
    value = match["pair_value"]
    if _NO_SECRET.fullmatch(value) or _spoken(name, sign, value) or (name == "pwd" and value.startswith("/")):
        return match[0]
    return f"{match['pair_head']}{MASK}"


def _spoken(name: str, sign: str, value: str) -> bool:
    """Whether `name: value` is rather prose ("unexpected token: }", "password: too short") than a setting."""
    if ":" not in sign or '"' in sign or "'" in sign:
        return False
    if name == "token" or name.endswith("signature"):
        return len(value) < _SHORTEST_SPOKEN_TOKEN or not any(c.isdigit() for c in value)
    return sign.endswith(" ") and value.isalpha() and value.islower() and len(value) < _SHORTEST_SPOKEN_TOKEN - 1
