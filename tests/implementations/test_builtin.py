import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from rlvraudit import fixtures
from rlvraudit.audit.errors import DeviceError, Exit
from rlvraudit.audit.implementations import backend as backend_module
from rlvraudit.audit.implementations import builtin
from rlvraudit.audit.implementations.backend import backends
from rlvraudit.audit.implementations.builtin import KernelAudit, audit_kernels
from rlvraudit.audit.implementations.judgement import Judgement
from rlvraudit.audit.implementations.probes.autograd import autograd
from rlvraudit.audit.implementations.probes.differences import differences
from rlvraudit.audit.implementations.probes.held import Held
from rlvraudit.audit.implementations.probes.padding import padded, padding
from rlvraudit.audit.implementations.probes.probe import Observation, ProbeResult, Subject
from rlvraudit.audit.implementations.vector_files import read
from rlvraudit.audit.reports.kernels import as_document, as_text
from rlvraudit.audit.reports.terminal import Page
from rlvraudit.audit.runs.contracts import mechanism_contracts
from rlvraudit.kernels.arrays import namespace
from rlvraudit.kernels.objectives import OBJECTIVES
from rlvraudit.schemas import load

FOLDER = fixtures.ROOT / "vectors"
NUMPY, TORCH = backends()


@pytest.fixture(scope="module")
def audit() -> KernelAudit:
    return audit_kernels(FOLDER)


def subject(objective: str, **changes: Any) -> Subject:
    file = read(FOLDER / f"{objective.replace('.', '-')}.json")
    valid = tuple(case for case in file.cases if case.expected is not None)
    return Subject(replace(OBJECTIVES[objective], **changes), valid)


def test_the_built_in_kernels_pass(audit: KernelAudit) -> None:
    assert [p.faults for p in audit.probes if not p.passed] == []
    assert [c.variant.name for c in audit.controls if not c.caught] == []
    assert audit.exit == Exit.PASSED


def test_autograd_is_checked_in_every_dtype(audit: KernelAudit) -> None:
    checked = {(p.objective, p.dtype) for p in audit.probes if p.probe == "autograd"}
    differentiable = [name for name, o in OBJECTIVES.items() if o.forward]
    assert len(differentiable) == 7
    dtypes = ("float16", "bfloat16", "float32", "float64")
    assert checked == {(name, dtype) for name in differentiable for dtype in dtypes}


def test_padding_is_checked_on_both_backends(audit: KernelAudit) -> None:
    checked = {(p.objective, p.backend) for p in audit.probes if p.probe == "padding"}
    masked = [n for n in OBJECTIVES if any("mask" in c.inputs for c in subject(n).cases)]
    assert checked == {(name, backend) for name in masked for backend in ("numpy", "torch")}


# --- Each probe trips on a faulty objective ----------------------------------------------


def test_autograd_trips_on_a_forward_that_detaches_too_little() -> None:
    def attached(logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **_: Any) -> Any:
        import torch

        ratio = torch.where(mask, torch.cumsum(logp_policy - logp_old, 1), 0.0).exp()
        wide = advantages if advantages.ndim == 2 else advantages[:, None]
        return -torch.where(mask, ratio * wide, 0.0).mean()

    results = list(autograd(subject("tapo.surrogate", forward=attached), TORCH))
    assert len(results) == 4
    assert not any(result.passed for result in results)


def test_autograd_and_differences_trip_on_a_wrong_closed_form() -> None:
    right = OBJECTIVES["grpo.surrogate"]

    def off(*args: Any, **kwargs: Any) -> Any:
        outputs = right.evaluate(*args, **kwargs)
        return {**outputs, "grad_logp_policy": outputs["grad_logp_policy"] * 1.001}

    wrong = subject("grpo.surrogate", evaluate=off)
    by_dtype = {r.dtype: r.passed for r in autograd(wrong, TORCH)}
    assert not by_dtype["float64"]
    assert not by_dtype["float32"]
    assert not by_dtype["float16"]
    (result,) = differences(wrong)
    assert not result.passed


@pytest.mark.parametrize("name", [name for name, o in OBJECTIVES.items() if o.forward])
def test_differences_trip_on_a_gradient_of_a_single_element_that_is_off(name: str) -> None:
    right = OBJECTIVES[name]

    def off(*args: Any, **kwargs: Any) -> Any:
        outputs = dict(right.evaluate(*args, **kwargs))
        gradient = outputs[f"grad_{right.wrt}"]
        first = np.zeros(gradient.shape)
        first.flat[0] = 1e-6
        return {**outputs, f"grad_{right.wrt}": gradient + first}

    (result,) = differences(subject(name, evaluate=off))
    assert not result.passed


def test_padding_trips_on_a_mask_that_is_multiplied() -> None:
    right = OBJECTIVES["kl.estimate"]

    def leaking(logp_policy: Any, logp_reference: Any, mask: Any, **params: Any) -> Any:
        outputs = right.evaluate(logp_policy, logp_reference, mask, **params)
        if namespace(logp_policy) is not namespace(np.zeros(1)):
            return outputs
        return {**outputs, "value": outputs["value"] + (0.0 * logp_policy).sum()}

    results = list(padding(subject("kl.estimate", evaluate=leaking), NUMPY))
    assert not any(result.passed for result in results)


def test_padding_trips_on_a_gradient_at_padding_however_small() -> None:
    right = OBJECTIVES["kl.estimate"]

    def leaking(logp_policy: Any, logp_reference: Any, mask: Any, **params: Any) -> Any:
        outputs = dict(right.evaluate(logp_policy, logp_reference, mask, **params))
        if isinstance(logp_policy, np.ndarray):
            gradient = outputs["grad_logp_policy"]
            outputs["grad_logp_policy"] = np.where(mask, gradient, np.asarray(1e-7, gradient.dtype))
        return outputs

    (*results,) = padding(subject("kl.estimate", evaluate=leaking), NUMPY)
    faults = " ".join(fault for result in results for fault in result.faults)
    assert "not exactly 0 at inactive positions" in faults


def test_padding_that_an_objective_counts_is_found() -> None:
    right = OBJECTIVES["tar.gate"]

    def counting(logp_policy: Any, logp_base: Any, mask: Any) -> Any:
        outputs = right.evaluate(logp_policy, logp_base, mask)
        return {"gate": outputs["gate"] * (1.0 + 0.01 * mask.shape[1])}

    results = list(padding(subject("tar.gate", evaluate=counting), TORCH))
    assert not any(result.passed for result in results)


def test_padded_inputs_hold_garbage_and_leave_what_counts_alone() -> None:
    case = next(c for c in subject("tapo.surrogate").of_dtype("float64") if c.id == 53)
    wide = padded(case)
    mask = wide.inputs["mask"]
    garbage = wide.inputs["logp_policy"][~mask]
    assert np.isnan(garbage).any()
    assert np.isposinf(garbage).any()
    assert (garbage > 0).any()
    rows, columns = case.inputs["mask"].shape
    assert mask.shape == (rows, columns + 4)
    kept = wide.inputs["logp_policy"][mask]
    np.testing.assert_array_equal(kept, case.inputs["logp_policy"][case.inputs["mask"]])
    np.testing.assert_array_equal(wide.inputs["advantages"], case.inputs["advantages"])


def test_a_probe_that_saw_nothing_but_zeros_does_not_pass() -> None:
    fine = Judgement(0.0)
    assert not ProbeResult("p", "o", "b", "d", (Observation(1, True, fine),)).passed
    assert not ProbeResult("p", "o", "b", "d", ()).passed
    seen = (Observation(1, True, fine), Observation(2, False, fine))
    assert ProbeResult("p", "o", "b", "d", seen).passed


def test_what_is_detached_keeps_the_held_value_while_the_rest_moves() -> None:
    x = Held(np.array([1.0, 2.0]), np.array([1.5, 2.0]))
    product = x.detach() * x + 1.0
    assert product.held.tolist() == [2.0, 5.0]
    assert product.moved.tolist() == [2.5, 5.0]
    assert (x > 1.2).tolist() == [False, True]
    reflected = 3.0 - x
    assert reflected.moved.tolist() == [1.5, 1.0]
    total = namespace(x).sum(namespace(x).exp(x))
    assert float(total.moved) == pytest.approx(np.exp(1.5) + np.exp(2.0))


# --- The whole ----------------------------------------------------------------------------


def test_without_torch_what_needs_it_is_not_run_and_that_is_no_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backend_module, "torch_module", lambda: None)
    result = audit_kernels(FOLDER)
    assert result.passed
    assert result.exit == Exit.INCOMPLETE
    text = as_text(result, Page(80))
    assert "PyTorch is not installed" in text
    assert "this is no pass" in text


def test_cuda_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = backend_module.torch_module()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError):
        audit_kernels(FOLDER, "cuda")


def test_a_control_that_is_not_caught_fails_the_audit(audit: KernelAudit) -> None:
    blind = replace(audit, controls=(replace(audit.controls[0], caught_by=()),))
    assert blind.exit == Exit.FINDINGS
    assert "caught 0 of 1" in as_text(blind, Page(80))
    assert "no case caught it" in as_text(blind, Page(80))


@pytest.mark.parametrize("part", ["probes", "controls"])
def test_an_audit_in_which_a_part_ran_nothing_does_not_pass(audit: KernelAudit, part: str) -> None:
    nothing: Any = {part: ()}
    assert replace(audit, **nothing).exit == Exit.FINDINGS


def test_an_objective_without_vectors_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = FOLDER / "tar-gate.json"
    (tmp_path / one.name).write_text(one.read_text())
    monkeypatch.setattr(builtin, "OBJECTIVES", {n: OBJECTIVES[n] for n in ("tar.gate", "kl.full")})
    monkeypatch.setattr(builtin, "VARIANTS", {})
    result = audit_kernels(tmp_path)
    assert [item.what for item in result.not_run] == ["kl.full"]
    assert result.exit == Exit.INCOMPLETE


def test_the_table_fits_eighty_columns_and_counts_the_controls(audit: KernelAudit) -> None:
    text = as_text(audit, Page(80))
    assert max(map(len, text.splitlines())) <= 80
    count = len(audit.controls)
    assert f"caught {count} of {count}" in text
    assert text.splitlines()[-1] == "The kernels compute what the papers say."


def test_the_document_is_strict_json_and_has_every_part(audit: KernelAudit) -> None:
    document = json.loads(json.dumps(as_document(audit), allow_nan=False))
    assert document["passed"] is True
    assert {v["objective"] for v in document["vectors"]} == set(OBJECTIVES)
    assert all(c["caught"] for c in document["negative_controls"])


def test_the_contracts_are_valid_diagnostic_and_the_same_each_time(audit: KernelAudit) -> None:
    document = mechanism_contracts(audit)
    jsonschema.Draft202012Validator(load("mechanism-contracts")).validate(document)
    assert (document["level"], document["diagnostic_only"]) == ("L0", True)
    assert document["formal_comparison"] is False
    assert all(c["passed"] == c["cases"] for k in document["contracts"] for c in k["checks"])
    assert json.dumps(document, allow_nan=False) == json.dumps(mechanism_contracts(audit))


def test_objectives_name_their_source() -> None:
    assert all(o.source for o in OBJECTIVES.values())
