"""The words that decide, for the offline verifier, whether a cut changes what is said. Sets of folded words, and
patterns over Chinese text, which has no spaces between words."""

import re

EMPTY = frozenset(
    "a an the is are was were be been being has have had of in on at and this that it its 了 的 在 是".split()
)
NEGATIONS = frozenset(
    "not no never without none neither nor cannot unable no-one nothing nobody 不 没 未 无 非 否 勿 别".split()
)
HEDGES = frozenset(
    """if unless may might could would should when expected probably possibly perhaps likely unlikely almost nearly
    except until suspected alleged planned simulated test 若 或 可 能 疑 除""".split()
)
DIRECTIONS = {
    "up": "rose rise rises rising risen increased increase increases increasing grew growing climbed higher up",
    "down": "fell fall falls falling fallen decreased decrease decreases decreasing dropped drops dropping lower down",
    "flat": "stayed steady flat unchanged constant remained stable",
}
DIRECTION_OF = {word: name for name, group in DIRECTIONS.items() for word in group.split()}
LOG_HEAD = frozenset(
    """ts time timestamp @timestamp level lvl severity msg message logger thread main caller pid process service app
    host hostname source event log trace span trace_id span_id utc gmt""".split()
)
PROGRAMS = frozenset(
    """kernel systemd kubelet kube-proxy kube-scheduler kube-apiserver containerd dockerd crond sshd nginx haproxy envoy
    httpd mysqld postgres redis-server mongod etcd coredns dnsmasq chronyd keepalived""".split()
)
"""They sign the lines of a system's log with their bare name, right behind the time."""
WHEN = frozenset("at after from since between".split())
"""A cut tail may begin with one of these where a time or a number follows: it only says when, or how long."""
WHERE = frozenset("on in by for during".split())
"""With anything but a time these narrow what is said ("on canary pods", "in 3 of 5 shards"): no claim may cut them."""
WHY = frozenset({"because", "while"})

CONDITIONS = frozenset("when once before case suppose assuming unless".split())
CONDITIONS_CJK = re.compile(
    r"如果|假如|假设|若|一旦|除非|仅当|当(?!前|天|日|地|中)|前[，,]|预计|预期|可能|或许|也许|疑似"
)
"""Anywhere before a claim in its sentence these make it depend on something that the claim left out."""
LIMITS = frozenset("if unless except until".split())
LIMITS_CJK = re.compile(r"除非|仅当|如果|假如|前提")
"""Anywhere behind it, too."""

UNREAL = (
    frozenset(
        """dry dry-run drill rehearsal simulation simulating hypothesis hypothetical theory guess example todo proposal
    plan planning scheduled trying tried attempt attempting staging sandbox canary""".split()
    )
    | HEDGES
)
UNREAL_CJK = re.compile(
    r"演练|试运行|模拟|预演|预计|预期|计划|打算|猜测|推测|怀疑|疑似|假设|示例|例如|尝试|试图|准备|可能|或许|也许"
    r"|预发|测试环境|沙箱|灰度"
)
"""In a label before a claim ("Dry run: …"), in a bracket or in a tail: what was a plan, a trial, a guess or only one
environment would become a fact without them."""

OVERTURNS = frozenset(
    """failed failure failing aborted abandoned refused rejected denied forbidden cancelled canceled skipped reverted
    false disabled off null unknown 0""".split()
)
"""Behind a colon, an equals sign or a bracket these say that what stands before did not come about."""
OVERTURNS_CJK = re.compile(r"失败|中止|终止|中断|拒绝|取消|跳过|撤销|回滚|超时|否|关闭|禁用|未知")
