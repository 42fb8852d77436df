"""What leaks, what only looks like it, and that messages don't repeat it."""

import random

import pytest

from rlvraudit.audit.evidence.private import leaks, masked, redacted

LEAKS = {
    "private-path": [
        *("/home/someone/x.json", "see /Users/someone", "(/root/run)", "HOME=/root"),
        *("/scratch/someone/x", "/mnt/data/x", "/gscratch/lab/x", "/lustre/p/x", "/nfs4/x/y"),
        *("C:\\Users\\someone\\x", "c:/users/someone/x", "file:///etc/x", "/var/folders/ab/x"),
        *("--out=/home/a", "host:/home/a", '"/home/a"', "/workspace/repo/x"),
    ],
    "host-identity": [
        *("GPU-12345678-1234-1234-1234-123456789abc", "00:1a:2b:3c:4d:5e", "00-1A-2B-3C-4D-5E"),
        *("someone@login01", "someone@gpu-node-7", "me@node:~$ ls", "root@a1b2c3d4-x:/# ls"),
        *("ip-10-0-0-1", "a.ec2.internal", "hostname: node7", '"user_name": "someone"'),
        *("SLURM_JOB_NODELIST=gpu[1-3]", "USER=someone", "{'hostname': 'node7'}"),
    ],
    "contact-or-address": [
        *("someone@example.org", "<a.b+c@x.co.uk>", "10.0.0.12", "192.168.1.1:8080", "8.8.8.8"),
        *("http://172.217.3.110/", "addr=10.1.2.3", "host 5.6.7.8", "- 172.217.3.110"),
        *("fe80::1", "2001:4860:4860::8888", "[fd00:1:2::3]:80", "2001:0:0:1:2:3:4:5"),
    ],
    "secret": [
        *("ghp_" + "a1B2" * 9, "github_pat_" + "a1B2_" * 9, "glpat-" + "x" * 20),
        *(
            "hf_" + "aB" * 17,
            "sk-" + "a1" * 24,
            "sk-proj-" + "a-1_" * 8,
            "sk-ant-api03-" + "a" * 30,
        ),
        *("AKIA" + "A1B2" * 4, "AIza" + "x" * 35, "xoxb-" + "1" * 12, "npm_" + "a" * 36),
        *("eyJhbGciOiJI.eyJzdWIiOiIx.abc", "-----BEGIN RSA PRIVATE KEY-----"),
        *(
            "-----BEGIN PRIVATE KEY-----",
            "https://user:hunter2@host/x",
            "WANDB_API_KEY=" + "a1" * 20,
        ),
    ],
}
HARMLESS = [
    *("runs/tar-42.json", "https://example.org/home/page", "a/home/b", "~/x", "/updates/0/loss"),
    *("pass@8", "maj@16", "recall@top10", "model@v2-beta", "actions/checkout@v4", "x@main"),
    *(
        "hostname: str",
        "hostname = socket.gethostname()",
        'log_name="train"',
        "node_name=node.name",
    ),
    *("git@github.com:a/b.git", "@pytest.mark", "user @ home"),
    *("cudnn 9.1.0.70", '"cuda": "12.4.131.1"', "version 172.16.0.1"),
    *("1.2.3.4", "==10.3.0.1", "127.0.0.1", "0.0.0.0", "192.0.2.7", "198.51.100.1", "203.0.113.9"),
    *("1.2.3", "1.2.3.4.5", "999.1.1.1", "0.123.456.789", "3.14159", "535.104.05"),
    *("x[::2]", "a::b", "std::vector", "12:30:45", "2026-11-01T10:00:00Z", "::1", "2001:db8::1"),
    *("urn:uuid:12345678-1234-1234-1234-123456789abc", "1:2:3", "00:00:00:00:00:00"),
    *("sk-learn", "task-" + "a" * 30, "hf_model", "max_tokens: 512", "desk-" + "a" * 40),
    *("0123456789abcdef" * 4, "sha256:" + "ab" * 32, "a1" * 20, "PUBLIC KEY", "npm_config"),
]


@pytest.mark.parametrize(("rule", "text"), [(r, t) for r, texts in LEAKS.items() for t in texts])
def test_leaks_are_found(rule: str, text: str) -> None:
    assert rule in {leak.rule for leak in leaks(text)}
    assert rule in {leak.rule for leak in leaks(f'{{"x": "{text}"}}')} or '"' in text


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_a_leak_is_left_alone(text: str) -> None:
    assert [(leak.what, text[leak.start : leak.end]) for leak in leaks(text)] == []


def test_digests_and_numbers_never_leak() -> None:
    rng = random.Random(0)
    digests = (f"{rng.getrandbits(256):064x}" for _ in range(3000))
    numbers = (repr(rng.uniform(-1e3, 1e3)) for _ in range(3000))
    assert list(leaks("\n".join([*digests, *numbers]))) == []


@pytest.mark.parametrize(("rule", "text"), [(r, t) for r, texts in LEAKS.items() for t in texts])
def test_redacted_text_no_longer_leaks(rule: str, text: str) -> None:
    clean, count = redacted(f"before {text} after")
    assert count >= 1
    assert rule not in {leak.rule for leak in leaks(clean)}
    assert clean.startswith("before")


def test_masked_text_does_not_hold_the_secret() -> None:
    secret = "hf_" + "aB" * 17
    assert secret[4:] not in masked(secret)
    assert "37 characters" in masked(secret)


def test_binary_data_is_searched_for_unmistakable_shapes_only() -> None:
    text = "/home/someone someone@example.org 10.0.0.12 ghp_" + "a" * 36
    assert {leak.rule for leak in leaks(text, binary=True)} == {"private-path", "secret"}


def test_a_leak_among_many_lines_is_found_at_its_place() -> None:
    text = "@\n" * 50 + "x\n" * 50 + "mail someone@example.org, @\n@"
    (leak,) = leaks(text)
    assert text[leak.start : leak.end] == "someone@example.org"


@pytest.mark.parametrize(
    "text",
    [
        *("a." * 500_000 + ".ec2.internal", "a." * 500_000 + "://", ":" * 1_000_000 + "g"),
        *(
            "eyJaaaaaaaa-" * 80_000,
            "a." * 500_000 + "@",
            "-----BEGIN " + "A " * 500_000 + "PRIVATE KEY",
        ),
        *("someone@example.org " * 50_000, "1.2.3.4 " * 20_000, "A" * 1_000_000 + "_TOKEN"),
    ],
    ids=range(9),
)
def test_text_made_to_be_slow_is_searched_in_time_that_grows_with_its_length(text: str) -> None:
    # A search that looked at every pair of positions would not end within the hour.
    assert len(list(leaks(text))) <= 1001
