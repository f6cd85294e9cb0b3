from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.dtypes import BF16, FP16, FP32
from deepgemm_codegen.harness.cases import inputs_for
from deepgemm_codegen.harness.compare import compare
from deepgemm_codegen.harness.inputs import Constant, Given, Inputs, Normal
from deepgemm_codegen.harness.matrix import Region
from deepgemm_codegen.harness.numbers import decode, encode, round_to
from deepgemm_codegen.harness.oracle import Oracle
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.harness.sums import Expected, StepModel, prefix_sums
from deepgemm_codegen.resources import data_folder
from deepgemm_codegen.specfile import read_all
from tests.harness.support import plan_of

MODELS = [StepModel(8, 24), StepModel(16, 25)]


def whole(text: Any, alpha: Any = 1.0, beta: Any = 0.0, kind: Any = "normal", **sizes: Any) -> Any:
    """The oracle of a small problem and all its operands as float64 arrays."""
    problem = bind(plan_of(text), alpha=alpha, beta=beta, **sizes)
    inputs = inputs_for(problem, "test", kind, 3)
    arrays = {}
    for matrix in problem.matrices:
        if matrix.name == "d":
            continue
        region = Region(0, 0, matrix.rows, 0, matrix.columns)
        raw = inputs.at(matrix.name, *region.indices(np), np)
        arrays[matrix.name] = decode(encode(raw, matrix.dtype, np), matrix.dtype, np)
    return problem, Oracle(problem, inputs, np), arrays


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("layout_d", ["n", "t"])
def test_d_is_what_numpy_says(layout: Any, layout_d: Any) -> None:
    problem, oracle, x = whole(
        f"m=50 n=70 k=90 dtype_c=fp32 epilogue=bias,relu,bias:row:fp32"
        f" layout={layout} layout_d={layout_d}",
        alpha=0.5,
        beta=-2.0,
    )
    wanted = np.maximum(0.5 * (x["a"] @ x["b"]) - 2 * x["c"] + x["bias0"], 0) + x["bias2"].T
    assert np.allclose(oracle.expected(problem.whole[0]).value, wanted, rtol=1e-6, atol=1e-6)


def test_a_piece_equals_the_whole() -> None:
    problem, oracle, _ = whole("m=50 n=70 k=90 dtype_c=fp32 epilogue=bias", 0.5, -2.0)
    oracle = replace(oracle, model=MODELS[0])
    everything = oracle.expected(problem.whole[0])
    piece = oracle.expected(Region(0, 10, 20, 60, 70))
    assert np.allclose(piece.value, everything.value[10:20, 60:70], rtol=1e-12)
    assert np.allclose(piece.error, everything.error[10:20, 60:70], rtol=1e-2)  # fp32 ends


def test_batches_have_their_own_operands() -> None:
    problem = bind(plan_of("m=8 n=8 k=8 batch=3"))
    oracle = Oracle(problem, inputs_for(problem, "test", "normal", 1), np)
    first, second, _ = (oracle.expected(region).value for region in problem.whole)
    assert not np.isclose(first, second).any()


def test_alpha_zero_reads_neither_a_nor_b() -> None:
    problem = bind(plan_of("m=8 n=8 k=8 dtype_c=fp16"), alpha=0.0, beta=0.5)
    oracle = Oracle(problem, Inputs("c alone", {"c": Constant(3.0)}), np)
    assert (oracle.expected(problem.whole[0]).value == 1.5).all()


def test_beta_zero_does_not_read_c() -> None:
    problem = bind(plan_of("m=8 n=8 k=8 dtype_c=fp16"), beta=0.0)
    ones = Inputs("no c", {"a": Constant(1.0), "b": Constant(1.0)})
    assert (Oracle(problem, ones, np).expected(problem.whole[0]).value == 8.0).all()


def test_k_zero_leaves_beta_c_and_the_epilogue() -> None:
    problem = bind(plan_of("m=2 n=3 k=0 dtype_c=fp16 epilogue=bias"), alpha=7.0, beta=2.0)
    inputs = Inputs("k 0", {"c": Constant(5.0), "bias0": Given(((1.0, 2.0, 3.0),))})
    for model in (None, MODELS[0]):
        found = Oracle(problem, inputs, np, model).expected(problem.whole[0])
        assert found.value.tolist() == [[11, 12, 13]] * 2


def test_a_sum_of_minus_zeros_is_plus_zero() -> None:
    problem = bind(plan_of("m=1 n=1 k=1"))
    inputs = Inputs("-0", {"a": Constant(-0.0), "b": Constant(1.0)})
    assert not np.signbit(Oracle(problem, inputs, np).expected(problem.whole[0]).value[0, 0])


def truncating_product(a: Any, b: Any, model: Any) -> Any:
    """A * B as `facts` of tensor cores describe it: groups in k, addends cut, sums cut to fp32."""
    total = np.zeros((a.shape[0], b.shape[1]))
    for start in range(0, a.shape[1], model.length):
        part = slice(start, start + model.length)
        addends = a[:, part, None] * b[None, part, :]
        addends = np.concatenate([total[:, None, :], addends], axis=1)
        _, exponent = np.frexp(np.abs(addends).max(axis=1))
        place = np.ldexp(1.0, exponent - 1 - model.fraction_bits)[:, None, :]
        exact = (np.trunc(addends / place) * place).sum(axis=1)
        cut = np.ldexp(1.0, np.frexp(exact)[1] - 24)
        total = np.trunc(exact / cut) * cut
    return total


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("k", [5, 64, 1000, 4096])
def test_truncating_sums_stay_inside_the_bound(model: Any, dtype: Any, k: Any) -> None:
    # The exponent here is at most the products' own, so this cuts a little less or the same.
    problem, oracle, x = whole(f"m=40 n=40 k={k} dtype={dtype} dtype_d=fp32")
    found = replace(oracle, model=model).products(problem.whole[0])
    computed = truncating_product(x["a"], x["b"], model)
    ratio = np.abs(computed - found.value) / found.error
    assert (ratio <= 1).all()
    assert ratio.max() > 0.01  # and the bound is not idle


@pytest.mark.parametrize("model", MODELS)
def test_the_bound_is_nowhere_near_the_values_at_large_k(model: Any) -> None:
    """A bound from k * |A||B| alone passes a D of zeros here; V03's other side."""
    problem, oracle, _ = whole("m=32 n=32 k=16384 dtype_d=fp32")
    found = replace(oracle, model=model).expected(problem.whole[0])
    zeros = compare(np.zeros((32, 32)), found, FP32, np)
    assert zeros.wrong > 0.99 * zeros.elements


def shipped() -> list[tuple[str, str, int]]:
    """(dtype, dtype of D, k) of every kernel in ``configs/kernels``, and of some longer ones."""
    files = sorted((data_folder("configs") / "kernels").glob("*.yaml"))
    specs = [entry.spec for entry in read_all(files)]
    found = {(str(s.dtype_a), str(s.dtype_d), s.k.size) for s in specs if s.k.size >= 16}
    assert found
    return sorted(
        found | {("bf16", "fp32", 28672), ("fp16", "fp16", 53248), ("bf16", "bf16", 53248)}
    )


@pytest.mark.parametrize(("dtype", "dtype_d", "k"), shipped())
def test_one_dropped_slice_is_rejected(dtype: str, dtype_d: str, k: int) -> None:
    problem, oracle, x = whole(f"m=16 n=16 k={k} dtype={dtype} dtype_d={dtype_d}", alpha=0.7)
    expected = replace(oracle, model=StepModel(8, 24)).expected(problem.whole[0])
    slice_k = 16  # the thinnest; a thicker one is seen more easily
    for start in (0, k // 2 // slice_k * slice_k, (k - 1) // slice_k * slice_k):
        kept = np.r_[0:start, min(start + slice_k, k) : k]
        dropped = problem.alpha * (x["a"][:, kept] @ x["b"][kept])
        dtype_of_d = problem.spec.dtype_d
        found = compare(round_to(dropped, dtype_of_d, np), expected, dtype_of_d, np)
        # One wrong element would do; more than half are.
        assert found.wrong > 0.5 * found.elements


def test_the_epilogue_carries_the_bound() -> None:
    problem, oracle, _ = whole("m=32 n=32 k=64 dtype_d=fp32 epilogue=bias,relu", alpha=3.0)
    found = replace(oracle, model=MODELS[0]).expected(problem.whole[0])
    assert (found.error[found.value > 0] > 0).all()
    clearly_negative = found.value == 0
    assert clearly_negative.any()
    assert (found.error[clearly_negative] == 0).mean() > 0.95


@pytest.mark.parametrize(
    ("arch", "words", "model"),
    [
        ("sm_75", "", StepModel(8, 24)),
        ("sm_80", "", StepModel(8, 24)),
        ("sm_89", "", StepModel(8, 24)),
        ("sm_90", "", StepModel(16, 25)),
        ("sm_90a", "", StepModel(16, 25)),
        ("sm_120", "", StepModel(16, 25)),
        ("sm_80", "dtype=fp32", StepModel(1, 48, 24)),
        ("sm_80", "tensor_cores=off", StepModel(1, 48, 24)),
        ("sm_89", "dtype=e4m3", StepModel(16, 13, 13, 32)),
        ("sm_89", "dtype=e4m3 accumulate=fast", StepModel(16, 13, 13)),
        ("sm_120", "dtype=e5m2", StepModel(32, 25)),
        ("sm_90a", "dtype=e4m3 layout=nt", StepModel(32, 13, 13, 128)),
        ("sm_90a", "dtype=e4m3 layout=nt accumulate=fast", StepModel(32, 13, 13)),
    ],
)
def test_each_kernel_has_its_model(arch: Any, words: Any, model: Any) -> None:
    plan = plan_of(f"m=1024 n=1024 k=1024 arch={arch} {words}", None)
    assert StepModel.of(arch, plan) == model


def test_adding_apart_bounds_what_narrow_sums_lose() -> None:
    """fp8 sums of 13 bits: promoted ones stay several times nearer."""
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((16, 8192)), rng.standard_normal((8192, 16))
    fast, promoted = (prefix_sums(a, b, StepModel(32, 13, 13, apart), np) for apart in (0, 128))
    assert np.allclose(fast.value, a @ b)
    assert (promoted.error < fast.error).all()
    assert promoted.error.mean() < 0.25 * fast.error.mean()


def test_exact_operands_need_no_bound() -> None:
    problem, oracle, x = whole("m=40 n=40 k=1000 dtype_d=fp32", kind="integers")
    exact = oracle.expected(problem.whole[0])
    assert (exact.error == 0).all()
    for model in MODELS:
        assert (truncating_product(x["a"], x["b"], model) == exact.value).all()


@pytest.mark.parametrize("model", [None, *MODELS])
def test_an_infinity_is_judged_and_may_be_nothing_else(model: Any) -> None:
    """Of A, of C, and of alpha; each of them, as a part of itself, once made both ends NaN."""
    for alpha, beta, a, c, wanted in (
        (-2.0, 0.5, [np.inf, 1.0], 3.0, [-np.inf, -0.5]),
        (1.0, 0.5, [1.0, 2.0], -np.inf, [-np.inf, -np.inf]),
        (np.inf, 0.0, [1.0, -1.0], 3.0, [np.inf, -np.inf]),
        (1.0, 1.0, [np.inf, -np.inf], -np.inf, [np.nan, -np.inf]),
    ):
        problem = bind(plan_of("m=2 n=1 k=2 dtype_c=fp32 dtype_d=fp32"), alpha=alpha, beta=beta)
        rows = Given(((a[0], 1.0), (a[1], 1.0)))
        values: dict[str, Any] = {"a": rows, "b": Given(((1.0,), (0.0,))), "c": Constant(c)}
        oracle = Oracle(problem, Inputs("infinite", values), np, model)
        expected = oracle.expected(problem.whole[0])
        assert compare(np.array([wanted]).T, expected, FP32, np).wrong == 0
        assert compare(np.full((2, 1), 7.0), expected, FP32, np).wrong == 2


def test_operands_are_rounded_to_their_type() -> None:
    problem = bind(plan_of("m=1 n=1 k=1 dtype=bf16 dtype_d=fp32"))
    inputs = Inputs("rounded", {"a": Constant(1 + 2.0**-10), "b": Constant(1.0)})
    assert Oracle(problem, inputs, np).expected(problem.whole[0]).value[0, 0] == 1.0


def test_expected_holds_a_value_for_every_type() -> None:
    for dtype in (FP16, BF16, FP32):
        expected = Expected.around(np.ones((2, 2)), np.zeros((2, 2)))
        assert compare(np.ones((2, 2)), expected, dtype, np).wrong == 0


def test_normal_inputs_by_name() -> None:
    inputs = Inputs("x", {"a": Normal(1)})
    assert inputs.at("a", 0, np.arange(2)[:, None], np.arange(2)[None, :], np).shape == (2, 2)
