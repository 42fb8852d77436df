"""Finding and loading supplements that nobody vouches for."""

import json
import pickle
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from supplements import GOOD, SPLIT, copy, write

from rlvraudit.audit.errors import LimitError, UnreadableError
from rlvraudit.audit.evidence.intake import Limits
from rlvraudit.audit.evidence.loading import find, load
from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.supplements import open_supplement


def slugs(evidence: Evidence) -> set[tuple[str, str]]:
    return {(fault.path, fault.slug) for fault in evidence.faults}


def document(value: Any, type_: str, folder: Path) -> Evidence:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return load(write(folder, {"x.json": data}, {"x.json": type_}))


def test_a_sound_supplement_has_its_documents_and_no_fault() -> None:
    evidence = open_supplement(GOOD)
    assert evidence.faults == ()
    assert evidence.name == "pass"
    assert sorted(evidence.documents) == ["receipt.json", "results.csv"]
    assert [a.type for a in evidence.artifacts] == ["item-results", "receipt"]
    assert evidence.artifacts[0].pointer == "/artifacts/0"


def test_item_results_stay_bytes_where_nobody_brings_a_parser() -> None:
    evidence = load(GOOD)
    assert "results.csv" not in evidence.documents
    assert evidence.faults == ()


def test_the_parser_that_is_brought_gets_the_hashed_bytes_and_the_path() -> None:
    seen: list[tuple[bytes, str]] = []

    def parser(data: bytes, path: str) -> str:
        seen.append((data, path))
        return "parsed"

    evidence = load(GOOD, parsers={"item-results": parser})
    assert evidence.documents["results.csv"].value == "parsed"
    assert seen == [(evidence.files["results.csv"].data, "results.csv")]


@pytest.mark.parametrize(
    ("error", "slug", "incomplete"),
    [(UnreadableError("no"), "parse-error", False), (LimitError("cap"), "limit-reached", True)],
)
def test_what_a_parser_refuses_is_a_fault_of_that_file_alone(
    error: Exception, slug: str, incomplete: bool
) -> None:
    def parser(_data: bytes, _path: str) -> None:
        raise error

    evidence = load(GOOD, parsers={"item-results": parser})
    assert slugs(evidence) == {("results.csv", slug)}
    assert evidence.incomplete is incomplete
    assert sorted(evidence.documents) == ["receipt.json"]


def test_supplements_are_found_below_a_folder_sorted_and_not_inside_one_another(
    tmp_path: Path,
) -> None:
    for folder in ("b", "a", "a/inner", ".hidden", ".venv/x", "node_modules/x", "c/d"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "supplement.json").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "b")
    assert find(tmp_path) == tuple(tmp_path / n for n in ("a", "b", "c/d"))
    assert find(tmp_path / "b") == (tmp_path / "b",)
    assert find(tmp_path / "b" / "supplement.json") == (tmp_path / "b",)
    assert find(tmp_path / "nowhere") == ()
    assert find(tmp_path / ".hidden") == (tmp_path / ".hidden",)


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    assert find(tmp_path) == ()


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"format": "other/1"}', b"\xff", b"[" * 999])
def test_a_broken_manifest_is_a_fault_and_claims_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "supplement.json").write_bytes(data)
    evidence = load(tmp_path)
    assert evidence.faults
    assert {fault.path for fault in evidence.faults} == {"supplement.json"}
    assert (evidence.manifest, evidence.artifacts, evidence.claims) == ({}, (), ())


def test_a_manifest_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_bytes((GOOD / "supplement.json").read_bytes())
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "supplement.json").symlink_to(tmp_path / "real.json")
    evidence = load(tmp_path / "s")
    assert slugs(evidence) == {("supplement.json", "symlink-or-special")}
    assert evidence.artifacts == ()


@pytest.mark.parametrize("path", ["../secret.json", "/etc/hostname", "a/../../secret.json", "C:x"])
def test_names_that_leave_the_tree_are_never_opened(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.json").write_bytes(SPLIT)
    write(tmp_path / "s", {}, {path: "split-manifest/1"})
    evidence = load(tmp_path / "s")
    assert evidence.documents == {}
    assert list(evidence.files) == ["supplement.json"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.pkl", pickle.dumps({"a": 1})),
        ("x.pt", b"PK\x03\x04"),
        ("x.npz", b"PK\x03\x04"),
        ("x.npy", b"\x93NUMPY"),
        ("x.yaml", b"a: 1"),
        ("x.PT", b"{}"),
        ("x.json", pickle.dumps({"a": 1}, 2)),
        ("x.json", pickle.dumps({"a": 1}, 5)),
        ("x.json", b"PK\x03\x04"),
        ("x.json", b"\x1f\x8b\x08"),
        ("x.tar", b""),
        ("x.parquet", b"PAR1"),
    ],
)
def test_formats_that_run_code_or_expand_are_never_parsed(
    tmp_path: Path, name: str, data: bytes
) -> None:
    evidence = load(write(tmp_path, {name: data}, {name: "split-manifest/1"}))
    assert slugs(evidence) == {(name, "unsupported-format")}
    assert evidence.documents == {}


def test_a_pickle_is_not_executed(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "executed",))

    open_supplement(
        write(tmp_path / "s", {"x.json": pickle.dumps(Bomb())}, {"x.json": "failure/1"})
    )
    open_supplement(write(tmp_path / "t", {"x.pt": pickle.dumps(Bomb())}, {"x.pt": "tensors/1"}))
    assert not (tmp_path / "executed").exists()


def test_a_safetensors_header_of_640_bytes_is_not_taken_for_a_pickle(tmp_path: Path) -> None:
    # 640 is 0x0280: its first bytes are those of a pickle of protocol 2.
    text = b'{"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'.ljust(640)
    data = (640).to_bytes(8, "little") + text
    evidence = load(write(tmp_path, {"x.safetensors": data}, {"x.safetensors": "tensors/1"}))
    assert evidence.faults == ()


@pytest.mark.parametrize(
    "data",
    [
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        b"/annex/objects/SHA256E-s1--0.json\n",
        b"../.git/annex/objects/xx/yy/SHA256E-s1--0/SHA256E-s1--0",
    ],
)
def test_pointers_are_not_taken_for_content(tmp_path: Path, data: bytes) -> None:
    assert slugs(document(data, "failure/1", tmp_path)) == {("x.json", "pointer-file")}


def test_references_in_a_document_are_not_fetched(tmp_path: Path) -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/schema.json"
        value = {**json.loads(SPLIT), "$schema": url, "$ref": url, "$id": url}
        evidence = document(value, "split-manifest/1", tmp_path)
        server.shutdown()
    assert asked == []
    assert {slug for _, slug in slugs(evidence)} == {"unknown-field"}


def test_a_digest_with_a_trailing_newline_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"x.json": SPLIT}, {"x.json": "split-manifest/1"})
    manifest = json.loads((tmp_path / "supplement.json").read_text())
    manifest["artifacts"][0]["sha256"] += "\n"
    (tmp_path / "supplement.json").write_text(json.dumps(manifest))
    assert slugs(load(tmp_path)) == {("supplement.json", "schema-violation")}


def test_messages_are_short_ascii_whatever_the_document_holds(tmp_path: Path) -> None:
    long = "\x1b[31m\u202e[/]" + "x" * 1_000_000
    value = {**json.loads(SPLIT), "format": long, long: 1, "splits": [{long: long}]}
    for fault in document(value, "split-manifest/1", tmp_path).faults:
        assert len(fault.message) <= 250
        assert fault.message.isascii()
        assert fault.message.isprintable()


def test_unknown_fields_do_not_spoil_a_document_and_name_the_nearest(tmp_path: Path) -> None:
    evidence = document({**json.loads(SPLIT), "splitz": 1}, "split-manifest/1", tmp_path)
    assert [f.message for f in evidence.faults] == [
        "unknown field \"splitz\", did you mean 'splits'?"
    ]
    assert "x.json" in evidence.documents


def test_many_violations_are_cut_and_the_cap_is_named(tmp_path: Path) -> None:
    value = json.loads(SPLIT)
    value["splits"] = [{"name": ""}] * 3000
    write(tmp_path, {"x.json": json.dumps(value).encode()}, {"x.json": "split-manifest/1"})
    evidence = load(tmp_path, Limits(findings=50))
    assert len(evidence.faults) <= 51
    assert evidence.incomplete
    assert "more than 50 violations" in evidence.faults[-1].message


def test_many_subjects_are_compared_in_time_that_grows_with_their_number(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    receipt = json.loads((folder / "receipt.json").read_text())
    receipt["subject"] = [{**receipt["subject"][0], "name": f"{i}"} for i in range(4000)]
    receipt["subject"].append(receipt["subject"][0])
    (folder / "receipt.json").write_text(json.dumps(receipt))
    faults = load(folder).faults
    assert [f.pointer for f in faults] == ["/subject/4000/name"]
    assert "first at /subject/0/name" in faults[0].message


def test_claims_need_distinct_ids(tmp_path: Path) -> None:
    write(tmp_path, {}, {})
    manifest = json.loads((tmp_path / "supplement.json").read_text())
    claim = {"id": "c", "statement": "s", "kind": "mechanism", "scope": {}, "evidence": []}
    manifest["claims"] = [claim, claim]
    (tmp_path / "supplement.json").write_text(json.dumps(manifest))
    assert [f.pointer for f in load(tmp_path).faults] == ["/claims/1/id"]
    assert load(tmp_path).claims == ()


@pytest.mark.parametrize("type_", ["tar-trace/9", "results/1", "tapo-trace/1"])
def test_unknown_types_are_named_with_the_known_ones(tmp_path: Path, type_: str) -> None:
    fault = document({}, type_, tmp_path).faults[0]
    assert fault.slug == "unknown-artifact-type"
    assert fault.pointer == "/artifacts/0/type"
    assert "tar-trace/1" in fault.message


def test_names_full_of_markup_and_escapes_pass_through_unharmed(tmp_path: Path) -> None:
    name = "[bold]x[/]\x1b[31m.json"
    evidence = load(write(tmp_path, {name: SPLIT}, {name: "split-manifest/1"}))
    assert name in evidence.documents
