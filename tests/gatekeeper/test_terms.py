"""What counts as a term of a claim, and when other text has it."""

import pytest

from gatekeeper.terms import Source, terms, unsupported_terms
from gatekeeper.text import fold


def names_and_numbers(text: str) -> list[str]:
    return [term.text for term in terms(fold(text))]


NINETY_NINE = ["Ninety-nine %", "two hundred and five", "four", "five"]
LARGE = ["two thousand five hundred", "three million", "hundred"]
TERMS = [
    ("a plain sentence has none", "Requests to the database failed because the pool was exhausted.", []),
    ("a capitalised word is no identifier", "Connections ran out. The pool was full.", []),
    ("nor is an acronym or a log level", "An ERROR and a WARNING about CPU, JVM and DNS.", []),
    ("nor hyphenated English", "A read-only, long-running, out-of-memory follow-up.", []),
    ("nor an abbreviation", "Some pools, e.g. this one, i.e. at 5 a.m., etc.", ["5"]),
    ("nor two sentences with no space", "The pool was exhausted.Then calls failed.", []),
    ("integers", "It failed 42 times.", ["42"]),
    ("group separators", "After 1,000 and 12,345.50 calls", ["1,000", "12,345.50"]),
    ("units close by or after a space", "30000ms, 30 s, 5 minutes and 512Mi", ["30000 ms", "30 s", "5 min", "512 MiB"]),
    ("percentages", "50%, 50 %, 50 percent", ["50 %", "50 %", "50 %"]),
    ("a hyphen before the unit", "a 30-second timeout on a 3-node cluster", ["30 s", "3"]),
    ("a prefix in English", "non-200 answers, top-10 tables", ["200", "10"]),
    ("ranges", "between 3-5 pods, 10-15ms", ["3", "5", "10", "15 ms"]),
    ("times", "at 10:42, at 2031-03-04T10:42:17.123Z", ["10:42", "2031-03-04", "10:42:17.123", "Z"]),
    ("times before a colon", "until 10:42:17Z: failed", ["10:42:17", "Z"]),
    ("versions and addresses", "v1.2.3, 18.6.3, 10.0.3.17:5432", ["v1.2.3", "18.6.3", "10.0.3.17", "5432"]),
    ("SQLSTATEs", "SQLSTATE 08006, 40P01 and HY000", ["08006", "40P01", "HY000"]),
    ("error codes", "ERR_123, ORA-00060, ECONNREFUSED, SIGKILL", ["ERR_123", "ORA-00060", "ECONNREFUSED", "SIGKILL"]),
    ("ids", "HikariPool-1 on payment-api-7d9f8b6c5-x2x4z", ["HikariPool-1", "payment-api-7d9f8b6c5-x2x4z"]),
    ("an id with an English ending", "HikariPool-1-related timeouts", ["HikariPool-1"]),
    ("service names", "order-service calls payment-api", ["order-service", "payment-api"]),
    ("snake case", "max_connections of order_db", ["max_connections", "order_db"]),
    ("dotted names", "spring.datasource.url in app.log.", ["spring.datasource.url", "app.log"]),
    ("camel case", "HikariPool, getConnection() and OOMKilled", ["HikariPool", "getConnection", "OOMKilled"]),
    ("calls", "close() never ran", ["close"]),
    ("paths", "GET /api/orders and /var/log/app.log, and/or", ["/api/orders", "/var/log/app.log"]),
    ("backticks quote", "the `orders` table", ["orders"]),
    ("beside Chinese", "连接池HikariPool-1在30000毫秒后超时,失败率50%", ["HikariPool-1", "30000 ms", "50 %"]),
    ("Chinese per cent and multiples", "百分之50的请求,3万次", ["50 %", "3 万"]),
    ("digits of other scripts", "٣٠ ms", ["30 ms"]),
    ("percentiles", "p95 and the 99th percentile", ["p95", "99th"]),
    ("status classes", "5xx answers", ["5xx"]),
    ("negative numbers", "-5 is not 10 -3", ["5", "10", "3"]),
    ("scientific notation", "1.5e+09 bytes", ["1.5e+09 B"]),
    ("units in full", "12 terabytes, 3 kiloseconds, 2 years", ["12 TB", "3 ks", "2 year"]),
    ("numbers in words", "Ninety-nine percent of two hundred and five, four and five", NINETY_NINE),
    ("large ones", "two thousand five hundred, three million, a hundred", LARGE),
    ("behind digits they are a unit", "30 thousand calls", ["30 K"]),
    ("one and ordinals are none", "one of the pods failed at the second attempt", []),
    ("multiples without a value", "twice, half of them, dozens, tenfold", ["twice", "half", "dozens", "tenfold"]),
    ("nor parts of words", "weight, often, half-open, tenant, someone", []),
    (
        "numbers in Chinese words",
        "百分之九十九的请求，三十秒两次，十二万",
        ["九十九 %", "三十 s", "两", "十二万"],
    ),
    ("tenths", "九成请求成功", ["九成"]),
    ("a word of two alphabets", "раyment is down, 30 μs, оплата", ["раyment", "30 us"]),
    ("Chinese words that only look so", "一些请求，万一，千万不要，第三方，三四个，统一，十分缓慢", []),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in TERMS], ids=[case[0] for case in TERMS])
def test_terms_of_a_text(text: str, expected: list[str]) -> None:
    assert names_and_numbers(text) == expected


SUPPORTED = [
    ("1,000 calls", "1000 calls"),
    ("1000 calls", "1,000 calls"),
    ("50 % used", "used=50%"),
    ("50 percent", "50%"),
    ("93 % used", "93.0% used"),
    ("30000 ms", "after 30000ms"),
    ("30000毫秒", "after 30000ms"),
    ("30000 after", "timed out after 30000ms"),
    ("30000 ms", "latency_ms=30000"),
    ("93%", 'used_percent: "93"'),
    ("at 10:42", "2031-03-04T10:42:17.123Z"),
    ("at 9:05", "at 09:05:00"),
    ("on 2031-03-04", "2031/03/04 10:42:17"),
    ("at 10:42Z", "at 10:42+00:00"),
    ("100 and 200", "[100,200,300]"),
    ("hikaripool-1", "HikariPool-1 - Connection"),
    ("HikariPool", "com.zaxxer.hikari.HikariPool"),
    ("order-service", "order-service-7d9f8b6c5-x2x4z"),
    ("the 95th percentile", "p95=2.1"),
    ("p95", "95th percentile"),
    ("v1.2.3", "image v1.2.3-alpine"),
    ("order 123", "GET /orders/123"),
    ("/orders/123", "http://shop/orders/123"),
    ("port 5432", "10.0.3.17:5432"),
    ("-5", "exit=-5"),
    ("value 50", "value `50`"),
    ("30秒", "30s"),
    ("٣٠", "30"),
    ("30", "٣٠"),
    ("ninety-nine percent", "used=99%"),
    ("Ninety-nine percent", "ninety-nine percent of calls"),
    ("three retries", "retries=3"),
    ("thirty seconds", "30s"),
    ("two thousand calls", "2,000 calls"),
    ("百分之九十九", "99%"),
    ("三十秒", "timed out after 30s"),
    ("两次", "retries: 2"),
    ("half of the payments", "half of all payments fail"),
    ("12 terabytes", "12TB"),
    ("2 years", "2 年"),
]
UNSUPPORTED = [
    ("30 s", "30000ms"),
    ("30000 s", "30000ms"),
    ("15", "1500"),
    ("15", "1.15"),
    ("10", "10.5"),
    ("1", "1,000"),
    ("000", "1,000"),
    ("18.10", "18.1"),
    ("18.1", "18.10"),
    ("8006", "08006"),
    ("50%", "50 connections"),
    ("50%", "min_idle 50"),
    ("5 minutes", "min_idle=5"),
    ("3", "3.14"),
    ("1", "HikariPool-1"),
    ("HikariPool-1", "HikariPool-12"),
    ("HikariPool-2", "HikariPool-1"),
    ("pool-1", "db-pool-1"),
    ("10.0.3.1", "10.0.3.17"),
    ("10.0.3", "10.0.3.17"),
    ("v1.2", "v1.2.3"),
    ("ERR_123", "ERR_124"),
    ("order_db", "orders_db"),
    ("payment-service", "order-service"),
    ("3万", "3"),
    ("10:43", "10:42:17"),
    ("10:42:18", "10:42:17"),
    ("10:42:17", "10:42"),
    ("10:42+08:00", "10:42Z"),
    ("5", "-5"),
    ("ECONNREFUSED", "ECONNRESET"),
    ("12345-abc", "12345-abd"),
    ("НikariPool-1", "HikariPool-1"),
    ("`order`", "orders"),
    ("ninety-nine percent", "used=93%"),
    ("ninety-nine percent", "ninety-nine dogs"),
    ("three retries", "retries=2"),
    ("thirty seconds", "30 ms"),
    ("ninety-nine", "99.5"),
    ("九十九秒", "93s"),
    ("百分之九十", "90 connections"),
    ("九成请求", "93%"),
    ("thousands of requests", "1000 requests"),
    ("half of the payments", "all payments fail"),
    ("12 terabytes", "12 GB"),
    ("30000 年", "30000ms"),
    ("30 kiloseconds", "30 seconds"),
    ("3 megabits", "3 MB"),
]


@pytest.mark.parametrize(("claim", "evidence"), SUPPORTED)
def test_same_figure_or_name_is_supported(claim: str, evidence: str) -> None:
    assert unsupported_terms(fold(claim), [Source(fold(evidence))]) == []


@pytest.mark.parametrize(("claim", "evidence"), UNSUPPORTED)
def test_other_figure_or_name_is_not_supported(claim: str, evidence: str) -> None:
    assert unsupported_terms(fold(claim), [Source(fold(evidence))]) != []


EACH_NUMBER_WORD = """two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion
    trillion dozen twice thrice half hundreds thousands millions billions trillions dozens twofold
    hundredfold""".split()


@pytest.mark.parametrize("word", EACH_NUMBER_WORD)
def test_each_number_word_is_a_term(word: str) -> None:
    assert [term.text for term in unsupported_terms(f"{word.upper()} pods failed", [Source("pods failed")])] == [
        word.upper()
    ]


def test_an_excerpt_that_stops_inside_a_number_does_not_support_the_rest() -> None:
    text = "the timeout is 30000ms here"
    cut = Source(text, 0, text.index("30000") + 2)
    assert [term.text for term in unsupported_terms("a timeout of 30", [cut])] == ["30"]
    assert unsupported_terms("a timeout of 30000", [Source(text, 0, text.index("ms"))]) == []
    assert unsupported_terms("used 93 of it", [Source("used 93.0 of it", 0, len("used 93"))]) != []


SHAPELESS = ["\u034f", "\u115f", "\u1160", "\u3164", "\uffa0", "\u180e", "\u2800", "\ufe0f", "\U000e0100", "\U000e0030"]


@pytest.mark.parametrize("char", [*SHAPELESS, "\u00ad", "\u200b", "\u2060"], ids=lambda char: f"U+{ord(char):04X}")
def test_no_figure_or_name_hides_behind_a_character_without_a_shape(char: str) -> None:
    source = [Source("10 calls to order_db failed")]
    for hidden in (f"1{char}0{char}0{char}0 calls failed", f"order_{char}log failed", f"9{char}9 %"):
        assert unsupported_terms(fold(hidden), source) != []
    assert unsupported_terms(fold(f"1{char}0 calls"), source) == []


@pytest.mark.parametrize("figure", ["⁹⁹", "₉₉", "⑨⑨", "❾❾", "½", "⑫", "Ⅻ", "𝟗𝟗"])
def test_no_figure_hides_in_another_form_of_digits(figure: str) -> None:
    assert unsupported_terms(fold(f"{figure} percent of calls"), [Source("30 percent of calls")]) != []
    assert unsupported_terms(fold(f"{figure} percent of calls"), [Source(fold(f"{figure} percent of calls"))]) == []


def test_a_hyphen_of_another_form_is_a_hyphen() -> None:
    assert unsupported_terms("payments\u2010db", [Source("payments-db")]) == []
    assert unsupported_terms("payments\u2011db", [Source("orders-db")]) != []


@pytest.mark.parametrize("around", ["\u200b" * 7, "½" * 5, "\U000e0030⁹", "连接池"])
def test_a_part_of_a_source_keeps_its_place_whatever_stands_around_it(around: str) -> None:
    text = f"{around} took 1500ms {around} after 42 s {around}"
    part = Source(text, text.index("took"), text.index("ms"))
    assert unsupported_terms("1500", [part]) == []
    assert unsupported_terms("42", [part]) != []
    assert unsupported_terms("15", [Source(text, text.index("took"), text.index("00ms"))]) != []


def test_ignored_names_need_no_support() -> None:
    assert unsupported_terms("the k8s cluster", [], ignored=frozenset({"k8s"})) == []
    assert [term.text for term in unsupported_terms("the k8s cluster", [])] == ["k8s"]
