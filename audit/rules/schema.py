"""RA2: documents are strict JSON under their schemas, and of types that are read."""

from collections.abc import Iterator
from datetime import datetime

from rlvraudit.audit.evidence.kinds import KINDS
from rlvraudit.audit.evidence.receipt import receipts
from rlvraudit.audit.evidence.supplement import MANIFEST, Evidence
from rlvraudit.audit.rules.rule import Held, Outcome, Problem, Skipped, rule

UTC_FORMATS = ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ")


@rule("RA201", "parse-error")
def parse_error(evidence: Evidence) -> Iterator[Outcome]:
    """Documents are strict UTF-8 JSON, and other formats are what their headers say.

    Lenient readers differ: on a byte order mark, on NaN and Infinity, on a key that appears
    twice, on numbers that overflow or vanish, on half a surrogate pair, on depth. A document
    that two readers understand differently is evidence of nothing. Line and column are given.

    Passes: `{"mean": 0.25}` in UTF-8.
    Fails: `{"mean": NaN}`, `{"a": 1, "a": 2}`, `1e400`, a file in UTF-16, a safetensors header
    whose offsets overlap.

    How to fix: write the file with a strict encoder of its format (for JSON, `json.dumps(value,
    allow_nan=False)` as UTF-8; for arrays, the safetensors library). Write null and a reason
    where a number is undefined, and split what is too large.

    When to suppress: never for evidence; a file that is not evidence belongs into `ignored`.
    """
    yield from _reported(evidence, "parse-error")


@rule("RA202", "schema-violation")
def schema_violation(evidence: Evidence) -> Iterator[Outcome]:
    """Every document is valid under the bundled JSON Schema of its declared type.

    Rules recompute numbers from fields; where a field is missing, or text stands for a number,
    there is nothing to recompute. Only the schemas that come with the toolkit are used, whatever
    a document says of itself, and nothing is fetched.

    Passes: a receipt with all required fields.
    Fails: a claim of kind `"improvement"`, which is no kind; a seed in quotes.

    How to fix: compare the place that is named with `rlvr-audit schema NAME`.

    When to suppress: never for evidence; what violates its schema is not looked at further.
    """
    yield from _reported(evidence, "schema-violation")


@rule("RA203", "unknown-artifact-type")
def unknown_artifact_type(evidence: Evidence) -> Iterator[Outcome]:
    """Every evidence file declares a type and version that this toolkit knows.

    An artifact of unknown type is bound by its digest, and that is all: none of its numbers is
    looked at, which a reader of a green report would not expect.

    Passes: `"type": "tar-trace/1"`.
    Fails: `"type": "tar-trace/9"`, `"type": "results/1"`.

    How to fix: declare one of the known types, or name the file in `ignored` with a reason.

    When to suppress: when an artifact of a newer version is meant for a newer toolkit.
    """
    faults = [f for f in evidence.faults if f.slug == "unknown-artifact-type"]
    for fault in faults:
        yield Problem(fault.path, fault.message, fault.pointer)
    for artifact in evidence.artifacts:
        kind = KINDS.get(artifact.type)
        if kind is not None and kind.version == artifact.version:
            yield Held(MANIFEST, f"{artifact.pointer}/type")
        elif artifact.path not in evidence.files:
            yield Skipped("missing files are for RA102")
    if not evidence.artifacts:
        yield Skipped("the manifest lists no file")


@rule("RA204", "unknown-field", "warning")
def unknown_field(evidence: Evidence) -> Iterator[Outcome]:
    """No document has a field that its schema does not know.

    A field that is not recognised is not checked; often it is a known one, misspelt, and the
    known one then counts as absent. The nearest known name is given.

    Passes: `"resamples": 10000`.
    Fails: `"resample": 10000`.

    How to fix: correct the name, or take the field out; free text has a place in `note` and
    `scope`.

    When to suppress: when a document serves other tools too, which need the field.
    """
    yield from _reported(evidence, "unknown-field")


@rule("RA205", "bad-timestamp")
def bad_timestamp(evidence: Evidence) -> Iterator[Outcome]:
    """Times are RFC 3339 in UTC, real dates, and no run starts after it finished.

    Times order the runs of a chain, so each must be one moment, the same for everybody.

    Passes: `"2026-11-01T10:00:00Z"`.
    Fails: `"2026-02-30T10:00:00Z"`, `"2026-11-01 10:00"`, `"2026-11-01T10:00:00+01:00"`.

    How to fix: write UTC with a `Z`, as in `datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")`.

    When to suppress: never needed; times can be corrected without a new run.
    """
    spans = list(_spans(evidence))
    for path, pointers, times in spans:
        moments = [moment(text) for text in times]
        for pointer, text, found in zip(pointers, times, moments, strict=True):
            if found is None:
                message = f"{text!a} is not a time in UTC such as 2026-11-01T10:00:00Z"
                yield Problem(path, message, pointer)
            else:
                yield Held(path, pointer)
        started, finished = moments
        if started and finished and started > finished:
            yield Problem(
                path, f"it started at {times[0]}, after its end at {times[1]}", pointers[0]
            )
    if not spans:
        yield Skipped("no document states times")


def _spans(evidence: Evidence) -> Iterator[tuple[str, tuple[str, str], tuple[str, str]]]:
    """Yield file, pointers and texts of each pair of start and finish."""
    place = "/predicate/runDetails/metadata"
    for receipt in receipts(evidence):
        yield receipt.path, (f"{place}/startedOn", f"{place}/finishedOn"), receipt.times
    for failure in evidence.of_type("failure"):
        times = failure.value["started"], failure.value["finished"]
        yield failure.artifact.path, ("/started", "/finished"), times


def moment(text: str) -> datetime | None:
    """Return the moment that an RFC 3339 time in UTC names, or None if it is none."""
    if not text.isascii() or len(text) > 27 or len(text) < 20:
        return None  # strptime accepts digits left out, spaces and other scripts
    for form in UTC_FORMATS:
        try:
            parsed = datetime.strptime(text, form)
        except ValueError:
            continue
        return parsed if parsed.isoformat()[:19] == text[:19] else None
    return None


@rule("RA206", "unsupported-format")
def unsupported_format(evidence: Evidence) -> Iterator[Outcome]:
    """No pickle, .pt, YAML, NumPy file or archive is used as evidence.

    Loading a pickle runs code, and so do the formats built on it, even in their safe modes;
    archives expand without bound; YAML reads `1e-6` as text and `no` as false. Such files are
    hashed and nothing else. The first bytes count as well as the name.

    Passes: arrays in `.safetensors`, tables in `.csv` or `.jsonl`, everything else in `.json`.
    Fails: `trace.pt`, `scores.npz`, `results.yaml`, a pickle called `trace.json`.

    How to fix: convert the file to safetensors, CSV or JSON, and list what you converted.

    When to suppress: never for evidence; a file that is not evidence belongs into `ignored`.
    """
    faults = [f for f in evidence.faults if f.slug == "unsupported-format"]
    for fault in faults:
        yield Problem(fault.path, fault.message)
    refused = {fault.path for fault in faults}
    right = [a for a in evidence.artifacts if a.path in evidence.files and a.path not in refused]
    yield from (Held(artifact.path) for artifact in right)
    if not faults and not right:
        yield Skipped("the manifest lists no file that is here")


def _reported(evidence: Evidence, slug: str) -> Iterator[Outcome]:
    """Yield the faults with this slug, and what was parsed without one."""
    faults = [fault for fault in evidence.faults if fault.slug == slug]
    for fault in faults:
        message = f"{fault.message} (column {fault.column})" if fault.column else fault.message
        yield Problem(fault.path, message, fault.pointer, fault.line)
    wrong = {fault.path for fault in faults}
    parsed = ((MANIFEST,) if evidence.manifest else ()) + tuple(sorted(evidence.documents))
    yield from (Held(path) for path in parsed if path not in wrong)
    if not faults and not parsed:
        yield Skipped("no document could be parsed; other findings say why")
