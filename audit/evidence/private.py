"""What must not leave the place where a run was made: paths, hosts, addresses and secrets.

Patterns are precise rather than complete: each stands for a shape that has no other use in a
supplement. Digests of 64 hexadecimal digits have no such shape and never match.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from itertools import islice

from rlvraudit.audit.evidence.intake import LIMITS

DOCUMENTATION = tuple(
    IPv4Network(net)
    for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "233.252.0.0/24")
)
DOCUMENTATION_6 = (IPv6Network("2001:db8::/32"), IPv6Network("3fff::/20"))
DOCUMENTATION_MAC = "00005e0053"
RESOLVERS = ("1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4", "9.9.9.9")
VERSION_BEFORE = re.compile(
    r"(?:version|cudnn|cuda|cublas|nccl|driver|release|build|[=<>~!]=)\W{0,5}$", re.I
)
ADDRESS_BEFORE = re.compile(r"(?:ip|addr(?:ess)?|host|server|dns|peer|url|://|@)\W{0,5}$", re.I)
METRICS = ("pass", "maj", "avg", "mean", "acc", "accuracy", "recall", "precision", "best", "hits")


@dataclass(frozen=True, slots=True)
class Leak:
    """A stretch of text that must not be there; `rule` is the slug of the rule that says so."""

    rule: str
    what: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """A shape; the literals, one of which must be there, and `quick` only save time."""

    rule: str
    what: str
    literals: tuple[str, ...]
    regex: re.Pattern[str]
    in_binary: bool = True
    quick: re.Pattern[str] | None = None

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Yield every match, looking only where a literal stands."""
        if self.quick is None:
            for start, end in _lines_with(text, self.literals):
                yield from self.regex.finditer(text, start, end)
        elif self.quick.search(text):
            yield from self.regex.finditer(text)


def _lines_with(text: str, literals: Iterable[str]) -> list[tuple[int, int]]:
    """Return start and end of each line that holds one of `literals`; no leak spans lines."""
    spans = set[tuple[int, int]]()
    for literal in literals:
        at = text.find(literal)
        while at >= 0:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            spans.add((text.rfind("\n", 0, at) + 1, end))
            at = text.find(literal, end)
    return sorted(spans)


REST = r"[^\s\"'<>|;,()\[\]{}]*"
BEFORE = r"(?<![\w.~-])"
SHARED = "scratch|lscratch|gscratch|netscratch|lustre|gpfs|beegfs|nfs|fsx|mnt|workspace|work"
PATTERNS = (
    Pattern(
        "private-path",
        "a home directory",
        ("/home/", "/Users/", "/root", "/var/folders/"),
        re.compile(rf"{BEFORE}/(?:(?:home|Users|root|var/folders)/[\w.-]|root\b){REST}"),
    ),
    Pattern(
        "private-path",
        "a Windows home directory",
        (":\\", ":/"),
        re.compile(
            rf"(?<![A-Za-z])[A-Za-z]:[\\/]{{1,4}}(?:Users|Documents and Settings)[\\/]{REST}", re.I
        ),
    ),
    Pattern(
        "private-path",
        "a path of a cluster or container",
        tuple(f"/{name}" for name in SHARED.split("|")),
        re.compile(rf"{BEFORE}/(?:{SHARED})\d*/[\w.-]{REST}"),
    ),
    Pattern("private-path", "a file URL", ("file://",), re.compile(rf"\bfile://{REST}")),
    Pattern(
        "host-identity",
        "the UUID of a GPU",
        ("GPU-", "MIG-", "gpu-", "mig-"),
        re.compile(r"\b(?:GPU|MIG)-(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\b", re.I),
    ),
    Pattern(
        "host-identity",
        "a MAC address",
        (":", "-"),
        re.compile(
            r"(?<![0-9A-Fa-f:.-])[0-9A-Fa-f]{2}([:-])[0-9A-Fa-f]{2}"
            r"(?:\1[0-9A-Fa-f]{2}){4}(?![0-9A-Fa-f:.-])"
        ),
        in_binary=False,
        quick=re.compile(r"[:-][0-9A-Fa-f]{2}[:-][0-9A-Fa-f]{2}[:-]"),
    ),
    Pattern(
        "host-identity",
        "a user and host name",
        ("@",),
        re.compile(
            r"(?<![\w.@/-])[A-Za-z_][\w.-]{0,31}@(?=[\w-]*[\d-])[A-Za-z][A-Za-z0-9-]{3,62}(?![\w.@-])"
            r"|(?<![\w.@/-])[A-Za-z_][\w.-]{0,31}@[A-Za-z][\w.-]{0,62}:(?=[~/]|\s*[$#])"
        ),
        in_binary=False,
    ),
    Pattern(
        "host-identity",
        "a host or user name",
        ("name", "NAME", "NODELIST", "USER"),
        re.compile(
            r"[\"'](?:host_?name|node_?name|user_?name|login)[\"']\s*:\s*[\"'][^\"'\s]+"
            r"|\b(?:host_?name|node_?name|user_?name):\s+(?!str\b|None\b|Optional\b|Any\b)\w[\w.-]*"
            r"|\b(?:HOSTNAME|LOGNAME|USERNAME|USER|SLURM\w*(?:NODELIST|NODENAME|USER))=\w[\w.-]*",
        ),
        in_binary=False,
    ),
    Pattern(
        "host-identity",
        "the name of an internal host",
        (".internal", ".localdomain", ".cluster.local", "ip-"),
        re.compile(
            r"(?<![\w.-])(?:[\w-]{1,63}\.){1,8}(?:compute\.internal|ec2\.internal|localdomain|cluster\.local)\b"
            r"|\bip-(?:\d{1,3}-){3}\d{1,3}\b"
        ),
    ),
    Pattern(
        "contact-or-address",
        "an e-mail address",
        ("@",),
        re.compile(
            r"(?<![\w.%+-])(?!git@[\w.-]+:)[\w.%+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}(?![\w-])"
        ),
        in_binary=False,
    ),
    Pattern(
        "contact-or-address",
        "an IPv4 address",
        (".",),
        re.compile(r"(?<![\w.])\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?!\w|\.\w)", re.ASCII),
        in_binary=False,
        quick=re.compile(r"\.[0-9]{1,3}\.[0-9]{1,3}\."),
    ),
    Pattern(
        "contact-or-address",
        "an IPv6 address",
        (":",),
        re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{1,44}(?![\w:])"),
        in_binary=False,
        quick=re.compile(r":[0-9A-Fa-f]{0,4}:"),
    ),
    Pattern(
        "secret",
        "a private key",
        ("PRIVATE KEY", "PuTTY-User-Key", "AGE-SECRET"),
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
            r"|PuTTY-User-Key-File-\d|AGE-SECRET-KEY-1[0-9A-Z]{20,}"
        ),
    ),
    Pattern(
        "secret",
        "a GitHub or GitLab token",
        ("gh", "github_pat_", "glpat-"),
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{22,}|glpat-[\w-]{20,})"),
    ),
    Pattern(
        "secret",
        "a token of a model provider",
        ("hf_", "sk-", "gsk_", "r8_", "AIza"),
        re.compile(
            r"(?<![\w-])(?:hf_[A-Za-z0-9]{30,}|sk-(?:ant|proj|svcacct|admin|or)-[\w-]{20,}"
            r"|sk-[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{40,}|r8_[A-Za-z0-9]{30,}|AIza[\w-]{35})"
        ),
    ),
    Pattern(
        "secret",
        "a key of a cloud or registry",
        ("AKIA", "ASIA", "aws_secret", "AWS_SECRET", "pypi-", "npm_", "AccountKey"),
        re.compile(
            r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|pypi-AgE[\w-]{20,}|\bnpm_[A-Za-z0-9]{36}\b"
            r"|(?:aws_secret_access_key|AWS_SECRET_ACCESS_KEY)[\"']?\s*[:=]\s*[\"']?[\w/+=]{40}"
            r"|AccountKey=[\w/+=]{40,}"
        ),
    ),
    Pattern(
        "secret",
        "a Slack token",
        ("xox", "xapp-", "hooks.slack"),
        re.compile(
            r"\bxox[abeoprs]-[\w-]{10,}|\bxapp-\d-[\w-]{10,}|hooks\.slack\.com/services/T\w+"
        ),
    ),
    Pattern(
        "secret",
        "a JSON web token",
        ("eyJ",),
        re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    ),
    Pattern(
        "secret",
        "a password or key",
        ("://", "_KEY", "PASSWORD", "_TOKEN", "_SECRET"),
        re.compile(
            r"\b[a-z][a-z0-9+.-]{0,15}://[^\s/:@\"']{1,256}:[^\s/@\"']{1,256}@"
            r"|\b[A-Z0-9_]*(?:API_KEY|PASSWORD|_TOKEN|_SECRET)[\"']?\s*[:=]\s*[\"']?[\w/+.-]{16,}"
        ),
    ),
)


def leaks(text: str, *, binary: bool = False) -> Iterator[Leak]:
    """Yield the leaks in `text`; of the strings in binary data only unmistakable shapes.

    Of one shape no more are looked for than a report shows.
    """
    for pattern in PATTERNS:
        if binary and not pattern.in_binary:
            continue
        found = (m for m in pattern.matches(text) if not _harmless(pattern.what, m))
        for match in islice(found, LIMITS.findings + 1):
            yield Leak(pattern.rule, pattern.what, match.start(), match.end())


def redacted(text: str) -> tuple[str, int]:
    """Return `text` with every leak replaced by what it was, and how many there were."""
    count = 0
    found: Sequence[Leak] = sorted(leaks(text), key=lambda leak: leak.start, reverse=True)
    edge = len(text)
    for leak in found:
        if leak.end <= edge:
            text = f"{text[: leak.start]}[{leak.what}]{text[leak.end :]}"
            edge, count = leak.start, count + 1
    return text, count


def masked(text: str) -> str:
    """Return enough of `text` to find it again, and no more."""
    return f"{text[:4]}... ({len(text)} characters)"


def _harmless(what: str, match: re.Match[str]) -> bool:
    """Tell whether a match is one of the shapes that only look like a leak."""
    text, before = match.group(), match.string[max(0, match.start() - 24) : match.start()]
    match what:
        case "an IPv4 address":
            return _harmless_ipv4(text, before)
        case "an IPv6 address":
            return _harmless_ipv6(text)
        case "a MAC address":
            digits = re.sub("[:-]", "", text).lower()
            return digits.startswith(DOCUMENTATION_MAC) or len(set(digits)) == 1
        case "a user and host name":
            return _harmless_host(*text.rstrip(":").split("@"))
        case _:
            return False


def _harmless_host(user: str, host: str) -> bool:
    """Metrics (`recall@top10`) and revisions (`model@v2-beta`) are no hosts."""
    is_revision = re.fullmatch(r"v\d.*|sha\d+|[0-9a-f]{7,64}|top-?\d+", host) is not None
    return user.casefold() in METRICS or is_revision or user == "git"


def _harmless_ipv4(text: str, before: str) -> bool:
    """Versions have four parts too; small numbers count as one unless the context says address."""
    try:
        address = IPv4Address(text)
    except ValueError:
        return True
    if text.startswith(("127.", "0.")) or any(address in net for net in DOCUMENTATION):
        return True
    if VERSION_BEFORE.search(before):
        return True
    is_small = all(int(part) < 32 for part in text.split("."))
    named = address.is_private or text in RESOLVERS or ADDRESS_BEFORE.search(before)
    return is_small and not named


def _harmless_ipv6(text: str) -> bool:
    """Slices (`[::2]`) and times are no addresses: three groups, or a prefix in use, are needed."""
    try:
        address = IPv6Address(text)
    except ValueError:
        return True
    groups = [group for group in text.split(":") if group]
    in_use = groups and re.fullmatch("(?:fe[89ab]|f[cd][0-9a-f]|[23]..).", groups[0].lower())
    is_documented = any(address in network for network in DOCUMENTATION_6)
    return address.is_loopback or is_documented or not (len(groups) >= 3 or in_use)
