"""A TAR trace: its JSON document together with the arrays recorded beside it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.evidence.supplement import Evidence

KINDS = {"f": "floats", "i": "integers", "b": "booleans"}
TERMS = ("surrogate", "kl", "replay", "total")
Numbers = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Misfit:
    """A place where document and arrays do not fit each other."""

    path: str
    pointer: str
    message: str


@dataclass(frozen=True, slots=True)
class TarTrace:
    """One run: `document` as its schema has it, `tensors` by name (empty if unreadable)."""

    path: str
    tensors_path: str
    document: Mapping[str, Any]
    tensors: Mapping[str, Numbers]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The recorded settings."""
        settings: Mapping[str, Any] = self.document["settings"]
        return settings

    def update(self, index: int, name: str) -> Numbers:
        """Return an array of one update."""
        return self.tensors[f"update.{index}.{name}"]

    def bank_rows(self) -> NDArray[np.int64]:
        """Return the replayed candidates as indices into all candidates, in recorded order."""
        count = self.settings["candidates"]
        rows = [
            position * count + index
            for position, entry in enumerate(self.document["bank"])
            for index in entry["indices"]
        ]
        return np.asarray(rows, np.int64)

    def accepted(self, index: int) -> list[int]:
        """Return the positions, within one update, of the groups it learnt from."""
        attempts = self.document["updates"][index]["attempts"]
        return [position for position, attempt in enumerate(attempts) if attempt["accepted"]]


def tar_traces(evidence: Evidence) -> Iterator[TarTrace]:
    """Yield every TAR trace of the evidence, by path."""
    for document in evidence.of_type("tar-trace"):
        path = document.artifact.path
        beside = str(PurePosixPath(path).parent / document.value["tensors"])
        arrays = evidence.documents.get(beside)
        tensors = arrays.value if arrays and arrays.artifact.type == "tensors" else {}
        yield TarTrace(path, beside, document.value, tensors)


def misfits(trace: TarTrace) -> Iterator[Misfit]:
    """Yield every place where the trace contradicts itself in shape, count or index.

    A trace without misfits can be recomputed without looking at shapes again.
    """
    if not trace.tensors:
        yield Misfit(
            trace.path, "/tensors", f"no readable tensors artifact at {trace.tensors_path}"
        )
        return
    yield from _counts(trace)
    yield from _indices(trace)
    expected = dict(_shapes(trace))
    wrong = [m for name, form in expected.items() for m in _array(trace, name, *form)]
    if wrong:
        more = f" (and {len(wrong) - 1} more arrays do not fit)" if len(wrong) > 1 else ""
        yield replace(wrong[0], message=wrong[0].message + more)
    for name in sorted(set(trace.tensors) - set(expected)):
        message = "unknown array; its numbers mean nothing here"
        yield Misfit(trace.tensors_path, f"/{name}", message)


def _counts(trace: TarTrace) -> Iterator[Misfit]:
    settings, document = trace.settings, trace.document
    pairs = [
        ("/updates", len(document["updates"]), settings["updates"], "updates"),
        ("/bank", len(document["bank"]), len(settings["prompts"]), "prompts"),
    ]
    for index in range(len(document["updates"])):
        pointer = f"/updates/{index}/attempts"
        pairs.append((pointer, len(trace.accepted(index)), settings["groups"], "accepted groups"))
    for pointer, found, expected, what in pairs:
        if found != expected:
            yield Misfit(trace.path, pointer, f"{found} {what}; the settings say {expected}")


def _indices(trace: TarTrace) -> Iterator[Misfit]:
    candidates = trace.settings["candidates"]
    lengths = {len(prompt) for prompt in trace.settings["prompts"]}
    if len(lengths) != 1:
        yield Misfit(trace.path, "/settings/prompts", "prompts of different lengths")
    tokens = [token for prompt in trace.settings["prompts"] for token in prompt]
    if any(not 0 <= token < trace.settings["vocabulary"] for token in tokens):
        yield Misfit(trace.path, "/settings/prompts", "a token outside the vocabulary")
    for position, entry in enumerate(trace.document["bank"]):
        for place, index in enumerate(entry["indices"]):
            if not 0 <= index < candidates:
                pointer = f"/bank/{position}/indices/{place}"
                yield Misfit(trace.path, pointer, f"{index} is no index of {candidates} candidates")
        if len(entry["distances"]) != len(entry["indices"]):
            pointer = f"/bank/{position}/distances"
            yield Misfit(trace.path, pointer, "not one distance for each index")


def _shapes(trace: TarTrace) -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
    """Yield each array's name with its kind (f, i or b) and shape."""
    s = trace.settings
    prompts, length, hidden = len(s["prompts"]), s["max_tokens"], s["hidden"]
    parameters = 2 * s["vocabulary"] * hidden + 6 * hidden**2 + 6 * hidden + s["vocabulary"]
    candidates, chosen = (prompts, s["candidates"]), len(trace.bank_rows())
    yield "parameters", ("f", (s["updates"] + 1, parameters))
    yield "bank.tokens", ("i", (*candidates, length))
    yield "bank.mask", ("b", (*candidates, length))
    yield "bank.logp_base", ("f", (*candidates, length))
    yield "bank.embeddings", ("f", (*candidates, hidden))
    yield "bank.correct", ("b", candidates)
    yield "replay.logp_base", ("f", (chosen, length))
    for index, update in enumerate(trace.document["updates"]):
        attempts = (len(update["attempts"]), s["group_size"])
        batch = s["groups"] * s["group_size"]
        yield f"update.{index}.attempts.tokens", ("i", (*attempts, length))
        yield f"update.{index}.attempts.mask", ("b", (*attempts, length))
        yield f"update.{index}.attempts.rewards", ("f", attempts)
        yield f"update.{index}.advantages", ("f", (batch,))
        for name in ("logp_old", "logp_policy", "logp_base", "grad_logp"):
            yield f"update.{index}.{name}", ("f", (batch, length))
        for name in ("logp_policy", "token_weights", "grad_logp"):
            yield f"update.{index}.replay.{name}", ("f", (chosen, length))
        yield f"update.{index}.replay.gate", ("f", (chosen,))
        yield f"update.{index}.gradients", ("f", (len(TERMS), parameters))


def _array(trace: TarTrace, name: str, kind: str, shape: tuple[int, ...]) -> Iterator[Misfit]:
    array = trace.tensors.get(name)
    if array is None:
        yield Misfit(trace.tensors_path, f"/{name}", "missing; the document demands it")
    elif array.dtype.kind != kind or array.shape != shape:
        found = f"{array.dtype.name} of shape {array.shape}"
        yield Misfit(
            trace.tensors_path,
            f"/{name}",
            f"{found}; the settings imply {KINDS[kind]} of shape {shape}",
        )
    elif kind == "f" and array.dtype.name != trace.document["dtype"]:
        message = f"{array.dtype.name}; the document says {trace.document['dtype']}"
        yield Misfit(trace.tensors_path, f"/{name}", message)
    elif name.endswith(".tokens") and not _is_vocabulary(array, trace.settings["vocabulary"]):
        yield Misfit(trace.tensors_path, f"/{name}", "a token outside the vocabulary")


def _is_vocabulary(tokens: Numbers, vocabulary: int) -> bool:
    return bool(np.all((tokens >= 0) & (tokens < vocabulary)))
