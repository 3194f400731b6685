"""One message that cannot be read stops one partition of a consumer group; its lag grows, the others are fine.

`promo-service` began to write the discount as a text with a decimal comma. Its first such message sits at one offset of
partition 3; the consumer seeks back and reads it again for ever. Alert and the consumer's log are Chinese.
"""

from __future__ import annotations

from . import noise, web
from .shape import (
    STEP_S,
    ActiveAlert,
    Answer,
    Finding,
    Incident,
    LogFile,
    Series,
    above,
    arrivals,
    comma,
    counter,
    every,
    gauge,
    hex_id,
    iso,
    rng_for,
    total,
    truth_of_a_fault,
    utc,
    wobble,
)

SLUG = "kafka-lag"
FIRED = utc("2026-11-26 08:53:30")
RECORDED = FIRED + 8 * 60
METRICS_FROM = int(FIRED) - 105 * 60
LOGS_FROM = FIRED - 46 * 60
RELEASE = utc("2026-11-26 08:38:15.230")
POISON = utc("2026-11-26 08:41:27.406")
BROKER_DISK = utc("2026-11-25 19:10:00")
PARTITIONS, BAD = 6, 3
WRITTEN_PER_S = 2.6
TOPIC, GROUP = "orders.paid", "fulfilment"
BAD_OFFSET = 884_213
THRESHOLD = 1000
PODS = [
    web.Pod("fulfilment-consumer-84c9d7b6f5-6jq2w", "10.42.2.18:8081", "fulfilment-consumer", "logistics", "worker-2"),
    web.Pod("fulfilment-consumer-84c9d7b6f5-rn8tk", "10.42.5.40:8081", "fulfilment-consumer", "logistics", "worker-5"),
]
LAG = f'sum by (consumergroup, topic) (kafka_consumergroup_lag{{consumergroup="{GROUP}",topic="{TOPIC}"}})'
DISK = 'kafka_log_dir_used_ratio{instance="kafka-2"} > 0.7'


def starts_at(partition: int) -> int:
    """The partition's newest offset when the recording of metrics begins."""
    return (
        871_000 + 4_400 * partition if partition != BAD else BAD_OFFSET - int((POISON - METRICS_FROM) * WRITTEN_PER_S)
    )


def written(partition: int, at: float) -> int:
    return starts_at(partition) + int((at - METRICS_FROM) * WRITTEN_PER_S)


def read(partition: int, at: float) -> int:
    """The committed offset: a second or two behind, and stuck before the message that cannot be read."""
    newest = written(partition, at - 1 - (at * 7 + partition) % 3)
    return min(newest, BAD_OFFSET) if partition == BAD else newest


# --- logs ------------------------------------------------------------------------------------------------------------


def owner(partition: int) -> web.Pod:
    return PODS[partition // 3]


def consumer_log(pod: web.Pod) -> LogFile:
    """A Spring Kafka consumer whose own messages are Chinese, the library's English."""
    rng = rng_for(SLUG, "log", pod.name)
    entries: noise.Entries = []

    def line(at: float, level: str, logger: str, text: str) -> None:
        entries.append((at, f"{iso(at)} {level:>5} 1 --- [{GROUP}-{rng.randrange(3)}-C-1] {logger:<32} : {text}"))

    mine = [partition for partition in range(PARTITIONS) if owner(partition) is pod]
    for at in arrivals(rng, LOGS_FROM, RECORDED, 0.2):
        partition = rng.choice(mine)
        if partition != BAD or at < POISON:
            line(at, "INFO", "shop.fulfilment.Handler", f"已生成出库单 order=o_{hex_id(rng, 8)} partition={partition} "
                 f"offset={read(partition, at)} 耗时 {rng.randrange(12, 90)}ms")  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 15):
        line(at, "DEBUG", "shop.fulfilment.Health", "GET /actuator/health 200")
    for at in every(rng, LOGS_FROM, RECORDED, 60):
        done = ", ".join(f"{TOPIC}-{partition}={read(partition, at)}" for partition in mine)
        line(at, "DEBUG", "o.a.k.c.c.internals.Coordinator", f"Committed offsets {{{done}}}")
    for at in every(rng, LOGS_FROM, RECORDED, 140):
        line(at, "WARN", "shop.fulfilment.Carrier", "承运商接口返回 429, 250ms 后重试 1/3")
    for at in every(rng, LOGS_FROM, RECORDED, 400):
        line(at, "WARN", "shop.fulfilment.Address", f"收货地址缺少邮编, 按城市分仓 order=o_{hex_id(rng, 8)}")
    if owner(BAD) is pod:
        failures(line)
    return LogFile(f"fulfilment-consumer/{pod.name}.log", entries)


def failures(line: noise.Line) -> None:
    where = f"topic={TOPIC} partition={BAD} offset={BAD_OFFSET}"
    for number, at in enumerate(every(rng_for(SLUG, "failures"), POISON, RECORDED, 10)):
        text = f"反序列化失败, 消息无法处理: {where} 第 {number + 1} 次重试"
        if number % 10 == 0:
            text += (
                "\norg.apache.kafka.common.errors.RecordDeserializationException: Error deserializing key/value for "
                f"partition {TOPIC}-{BAD} at offset {BAD_OFFSET}. If needed, please seek past the record to continue "
                "consumption.\n\tat org.apache.kafka.clients.consumer.internals.CompletedFetch.parseRecord"
                "(CompletedFetch.java:309)\nCaused by: com.fasterxml.jackson.databind.exc.InvalidFormatException:"
                ' Cannot deserialize value of type `java.math.BigDecimal` from String "12,50": not a valid'
                " representation"
            )
        line(at, "ERROR", "shop.fulfilment.ErrorHandler", text)
        line(at + 0.006, "INFO", "o.a.k.clients.consumer.Consumer",
             f"Seeking to offset {BAD_OFFSET} for partition {TOPIC}-{BAD}")  # fmt: skip
    for at in every(rng_for(SLUG, "stuck"), POISON + 120, RECORDED, 60):
        line(at, "WARN", "shop.fulfilment.Progress", f"分区 {BAD} 位点停在 {BAD_OFFSET} 未前进, 当前积压 "
                                                     f"{written(BAD, at) - BAD_OFFSET} 条")  # fmt: skip


def producer_log() -> LogFile:
    """promo-service, a Go service."""
    rng = rng_for(SLUG, "promo")
    entries: noise.Entries = []

    def line(at: float, level: str, msg: str, **fields: object) -> None:
        entries.append((at, noise.json_line(ts=iso(at), level=level, service="promo-service", msg=msg, **fields)))

    for at in arrivals(rng, LOGS_FROM, RECORDED, 0.16):
        line(at, "info", "discount applied", order=f"o_{hex_id(rng, 8)}", rule=rng.choice(("A3", "B1", "VIP")))
    line(RELEASE + 4, "info", "started", version="1.9.0", discount_format="localised text (was: number)")
    for at in every(rng, LOGS_FROM, RECORDED, 220):
        line(at, "warn", "rule cache miss, loaded from database", rule="B1")
    return LogFile("promo-service/promo-service.json", entries)


def deployer_log() -> LogFile:
    def line(at: float, level: str, text: str) -> tuple[float, str]:
        return at, f"{iso(at)} {level:<5} deployer {text}"

    return LogFile(
        "deployer/deploys.log",
        [
            line(RELEASE - 7400, "INFO", "release storefront-bff 91 -> 92 namespace=shop requested by ci"),
            line(RELEASE - 1500, "INFO", "release label-printer 0.7.3 -> 0.7.4 namespace=logistics requested by ci"),
            line(RELEASE, "INFO", "release promo-service 1.8.2 -> 1.9.0 namespace=shop requested by ci"),
            line(RELEASE + 0.3, "WARN", "policy schemas: promo-service 1.9.0 writes field discount of orders.paid as "
                                        "string, registered schema says decimal (advisory, not blocking)"),
            line(RELEASE + 41, "INFO", "rollout promo-service: complete, 3/3 ready"),
        ],
    )  # fmt: skip


def broker_log() -> LogFile:
    rng = rng_for(SLUG, "broker")
    entries: noise.Entries = []

    def line(at: float, level: str, text: str) -> None:
        entries.append((at, f"[{comma(at)}] {level} {text}"))

    for at in arrivals(rng, LOGS_FROM, RECORDED, 0.035):
        topic, base = f"orders.{rng.choice(('paid', 'created'))}-{rng.randrange(6)}", rng.randrange(400_000, 900_000)
        snapshot = f"Wrote producer snapshot at offset {base} with {rng.randrange(2, 9)} producer ids in 3 ms."
        line(at, "INFO", f"[ProducerStateManager partition={topic}] {snapshot} (o.a.k.storage.internals.log)")
    for at in every(rng, LOGS_FROM, RECORDED, 300):
        line(at, "INFO", "[GroupCoordinator 2]: Group fulfilment generation 41 is Stable with 2 members "
                         "(kafka.coordinator.group.GroupCoordinator)")  # fmt: skip
    for at in every(rng, LOGS_FROM, RECORDED, 380):
        line(at, "WARN", "[SocketServer listenerType=BROKER, nodeId=2] Unexpected error from /10.42.0.1; closing "
                         "connection (org.apache.kafka.common.network.Selector)")  # fmt: skip
    return LogFile("kafka/kafka-2-server.log", entries)


def logs() -> list[LogFile]:
    span = (LOGS_FROM, RECORDED)
    routes = {
        "/checkout/{n}": ("storefront-bff", 200, 0.1),
        "/promo": ("promo-service", 200, 0.03),
        "/apple-touch-icon.png": ("storefront-bff", 404, 0.001),
    }
    bearer = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJmdWxmaWxtZW50In0.bm90aGluZy1yZWFs"
    return [
        *(consumer_log(pod) for pod in PODS),
        producer_log(),
        deployer_log(),
        broker_log(),
        LogFile("coupon-api/coupon-api.log", noise.coupons_in_chinese(rng_for(SLUG, "coupon"), *span, 0.1)),
        LogFile(f"ingress-nginx/access-{noise.day(FIRED)}.log.gz",
                noise.ingress(rng_for(SLUG, "ingress"), *span, routes, 0.1)),
        LogFile("payment-gateway/payment-gateway.json",
                noise.payment_gateway(rng_for(SLUG, "pay"), *span, 0.05, bearer)),
    ]  # fmt: skip


# --- metrics ---------------------------------------------------------------------------------------------------------


def topic_series() -> list[Series]:
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    exporter = {"job": "kafka-exporter", "topic": TOPIC}
    many = []
    for partition in range(PARTITIONS):

        def lag(at: int, partition: int = partition) -> float:
            return written(partition, at) - read(partition, at)

        def newest(at: int, partition: int = partition) -> float:
            return written(partition, at)

        def committed(at: int, partition: int = partition) -> float:
            return read(partition, at)

        labels = {**exporter, "partition": str(partition)}
        group = {**labels, "consumergroup": GROUP}
        many += [
            gauge("kafka_consumergroup_lag", group, ticks, lag),
            gauge("kafka_consumergroup_current_offset", group, ticks, committed),
            gauge("kafka_topic_partition_current_offset", labels, ticks, newest),
        ]
    return many


def consumer_series() -> list[Series]:
    rng = rng_for(SLUG, "metrics")
    ticks = range(METRICS_FROM, int(RECORDED) + 1, STEP_S)
    many = []
    for pod in PODS:
        mine = [partition for partition in range(PARTITIONS) if owner(partition) is pod]

        def worst(at: int, mine: list[int] = mine) -> float:
            return max(written(partition, at) - read(partition, at) for partition in mine)

        def handled(at: int, mine: list[int] = mine) -> float:
            return WRITTEN_PER_S * sum(1 for partition in mine if partition != BAD or at < POISON)

        def failed(at: int, mine: list[int] = mine) -> float:
            return 0.1 if BAD in mine and at > POISON else 0

        container = {"namespace": "logistics", "pod": pod.name, "container": pod.service}
        many += [
            gauge("kafka_consumer_fetch_manager_records_lag_max", pod.labels, ticks, worst),
            counter("spring_kafka_listener_seconds_count", {**pod.labels, "result": "success"}, ticks, handled, 4e6),
            counter("spring_kafka_listener_seconds_count", {**pod.labels, "result": "failure"}, ticks, failed, 3, 1),
            gauge("kafka_consumer_coordinator_assigned_partitions", pod.labels, ticks, lambda _at: 3),
            counter("kafka_consumer_coordinator_rebalance_total", pod.labels, ticks, lambda _at: 0, 5),
            gauge("up", pod.labels, ticks, lambda _at: 1),
            counter("container_cpu_usage_seconds_total", container, ticks, wobble(rng, 0.2, 0.02), 4e3, 1),
        ]
    kafka = {"job": "kafka", "instance": "kafka-2"}
    return [
        *many,
        gauge("kafka_topic_partition_under_replicated_partition", {"job": "kafka-exporter", "topic": TOPIC}, ticks,
              lambda _at: 0),
        gauge("kafka_consumergroup_members", {"job": "kafka-exporter", "consumergroup": GROUP}, ticks, lambda _at: 2),
        gauge("kafka_log_dir_used_ratio", kafka, ticks, lambda at: 0.72 + (at - METRICS_FROM) * 1e-7, 4),
    ]  # fmt: skip


def answers(series: list[Series]) -> list[Answer]:
    lags = web.named(series, "kafka_consumergroup_lag")
    whole = total(lags, {"consumergroup": GROUP, "topic": TOPIC}, 0)
    (disk,) = web.named(series, "kafka_log_dir_used_ratio")
    by_partition = [Series({"partition": one.labels["partition"]}, one.samples) for one in lags]
    return [
        Answer(f"{LAG} > {THRESHOLD}", above(whole, THRESHOLD)),
        Answer(LAG, [whole]),
        Answer(f'sum by (partition) (kafka_consumergroup_lag{{consumergroup="{GROUP}",topic="{TOPIC}"}})',
               by_partition),
        Answer(f'sum by (partition) (rate(kafka_consumergroup_current_offset{{consumergroup="{GROUP}"}}[5m]))',
               web.rates(web.named(series, "kafka_consumergroup_current_offset"), "partition")),
        Answer(DISK, [Series({k: v for k, v in disk.labels.items() if k != "__name__"}, disk.samples, 4)]),
    ]  # fmt: skip


# --- the incident ----------------------------------------------------------------------------------------------------

TRUTH = truth_of_a_fault(
    "消费组 fulfilment 的分区 3 被一条无法反序列化的消息卡住",
    "promo-service 1.9.0 writes the discount as the text \"12,50\"; the message at offset 884213 of orders.paid "
    "partition 3 cannot be deserialized, the consumer retries it for ever, and the lag of that partition grows.",
    [
        Finding("message-cannot-be-read",
                [r"反序列化失败", r"(?i)RecordDeserializationException", r"(?i)Cannot deserialize value"],
                ["query_logs"]),
        Finding("one-partition-stands-still",
                [r"(?i)partition[= -]+3 offset=884213", r"分区 3 位点停在 884213",
                 r"(?i)orders\.paid-3 at offset 884213", r"(?i)Seeking to offset 884213"],
                ["query_logs", "query_metrics"]),
        Finding("producer-changed-the-format",
                [r"(?i)promo-service 1\.8\.2 -> 1\.9\.0", r"(?i)registered schema says decimal",
                 r"(?i)String \"12,50\""],
                ["query_logs"]),
        Finding("lag-grows", [r"(?i)当前积压 \d+ 条", r"(?i)records_lag_max", r"(?i)kafka_consumergroup_lag"],
                ["query_logs", "query_metrics"]),
    ],
    [
        r"(?i)(caused by|because of|due to) .{0,40}(rebalanc|broker|under-?replicat|disk|carrier|too few consumers)",
        r"(重平衡|再均衡|磁盘|承运商|消费者数量不足|429)[^。]{0,20}(导致|引起|是根因|是原因)",
        r"(?i)all (six |6 )?partitions of orders\.paid (are |is )?lag|所有分区(均|都)?(有|出现)?积压",
    ],
    "Only partition 3 lags. No rebalance took place, all replicas are in sync and the number of members is as before. "
    "Retries after 429 of a carrier are as frequent before as after; the broker's disk use is an unrelated warning.",
)  # fmt: skip


def build() -> Incident:
    series = consumer_series() + topic_series()
    subject = ActiveAlert(
        {
            "alertname": "KafkaConsumerGroupLagHigh",
            "severity": "critical",
            "service": "fulfilment-consumer",
            "namespace": "logistics",
            "consumergroup": GROUP,
            "topic": TOPIC,
            "team": "logistics",
            "cluster": "prod-cn-1",
        },
        {
            "summary": "消费组 fulfilment 在 orders.paid 上的消费积压超过 1000 条",
            "description": "消费组 fulfilment 在主题 orders.paid 上的积压连续 5 分钟超过 1000 条, 出库单生成延迟。",
        },
        FIRED,
        f"{LAG} > {THRESHOLD}",
    )
    disk = ActiveAlert(
        {"alertname": "KafkaLogDirUsageHigh", "severity": "warning", "instance": "kafka-2", "job": "kafka",
         "cluster": "prod-cn-1"},
        {"summary": "kafka-2 数据目录使用率超过 70%", "description": "kafka-2 的数据目录使用率为 72%, 增长缓慢。"},
        BROKER_DISK,
        DISK,
    )  # fmt: skip
    return Incident(SLUG, subject, [subject, disk], RECORDED, logs(), series, answers(series), TRUTH)
