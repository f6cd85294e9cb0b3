"""Row kernels: what the tree answers, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.decide.explain import explain, format_explanation
from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.rows.search import RowMenu, candidates, cheapest, cost_of, violations
from deepgemm_codegen.decide.rows.task import row_task
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.plan import MmaSync, Rows
from deepgemm_codegen.spec import GemmSpec
from tests.harness.support import assert_right

ALONE = "op=epilogue m=8192 n=4096 dtype=bf16 arch=sm_90a gpu=H200 epilogue=layer_norm"


def rows_of(text: str) -> Rows:
    spec = GemmSpec.from_text(text)
    body = decide(spec, load_arch(spec.arch, spec.gpu, spec.sms)).kernels[-1].body
    assert isinstance(body, Rows)
    return body


@pytest.mark.parametrize(
    ("changed", "vector", "checked"),
    [
        ("", 8, False),
        ("dtype=fp32", 4, False),
        ("dtype_d=fp32", 4, False),
        ("n=4098", 2, False),
        ("n=4095", 1, False),
        ("lda=4100", 4, False),
        ("align_d=4", 2, False),
        ("epilogue=residual:align=2,layer_norm", 1, False),
        ("epilogue=layer_norm:align=8", 4, False),
        ("epilogue=layer_norm:weight_dtype=fp32", 8, False),
        ("epilogue=layer_norm,quantize:int8", 8, False),
        ("m=1 lda=4097", 8, False),
        ("n=dynamic:4096", 8, True),
        ("n=dynamic:4096 align_a=2", 1, False),
        ("m=dynamic:8192", 8, False),
        ("batch=4 m=2048 stride_d=8388612", 4, False),
        ("batch=4 m=2048 stride_a=pointers", 8, False),
        ("batch=4 m=dynamic:2048 n=dynamic:4096", 8, True),
        ("batch=8192 m=1 lda=4097 stride_a=4098", 2, False),
    ],
)
def test_vectors_are_what_everything_allows(changed: str, vector: int, *, checked: bool) -> None:
    fields = dict(word.split("=", 1) for word in f"{ALONE} {changed}".split())
    body = rows_of(" ".join(f"{name}={value}" for name, value in fields.items()))
    assert (body.vector, body.checked) == (vector, checked)


@pytest.mark.parametrize("n", [1, 31, 768, 1024, 4096, 8192, 16384, 32768, 40000, 1 << 20])
def test_every_length_has_a_kernel(n: int) -> None:
    body = rows_of(f"op=epilogue m=100 n={n} dtype=bf16 arch=sm_90a epilogue=rms_norm")
    assert body.threads <= 1024
    if body.held:
        assert body.held * body.vector * body.row_threads >= n
        assert body.held * body.vector <= (40 if body.threads <= 512 else 32)
    else:
        assert n > 32 * 1024 or n % 8


def test_the_search_finds_the_cheapest_of_all() -> None:
    for text in (ALONE, ALONE.replace("m=8192", "m=3"), ALONE.replace("n=4096", "n=1000")):
        spec = GemmSpec.from_text(text)
        arch = load_arch(spec.arch, spec.gpu, spec.sms)
        task = row_task(spec, machine_of(arch, "bf16"))
        legal = [c for c in candidates(task, RowMenu()) if not any(violations(task, c))]
        found = cheapest(task, RowMenu())
        assert found is not None
        assert found[2] == len(legal)
        least = min(cost_of(task, choice).clocks for choice in legal)
        assert found[1].clocks <= 1.01 * least


def test_overrides_are_kept() -> None:
    body = rows_of(f"{ALONE} warps_n=16")
    assert (body.warps_m, body.warps_n) == (1, 16)
    body = rows_of(f"{ALONE.replace('n=4096', 'n=512')} warps_n=1 warps_m=8")
    assert (body.warps_m, body.warps_n) == (8, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{ALONE} warps_n=3",
            (
                "warps_n = 3: a row has 3 warps, and sums halve a power of two of them;"
                " the next is 4; leave warps_n out"
            ),
        ),
        (
            f"{ALONE} warps_n=2 warps_m=4",
            (
                "warps_n = 2 with warps_m = 4: rows of several warps have a block each, not 4"
                " to a block; leave warps_n out"
            ),
        ),
        (
            f"{ALONE} warps_n=64",
            "warps_n = 64: too large; the nearest legal is 32, or leave warps_n out",
        ),
        (
            f"{ALONE} tile_m=64",
            "tile_m = 64: no kernel family that serves op = epilogue has it; leave tile_m out",
        ),
    ],
)
def test_overrides_that_no_row_kernel_has(text: str, message: str) -> None:
    spec = GemmSpec.from_text(text)
    with pytest.raises(InputError) as caught:
        decide(spec, load_arch(spec.arch, spec.gpu, spec.sms))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("op=norm m=1 n=1", "op = norm: unknown; give product or epilogue"),
        (
            "op=epilogue m=1 n=1 k=4",
            "k = 4: op = epilogue has no product, and only A, m x n; leave k out",
        ),
        (
            "op=epilogue m=4 n=4 batch=2 stride_b=16",
            "stride_b = 16: op = epilogue has no product, and only A, m x n; leave stride_b out",
        ),
        (
            "op=epilogue m=4 n=4 batch=2 stride_d=shared",
            "stride_d = 0: 2 products would write one D; leave it out",
        ),
        (
            "op=epilogue m=4 n=4 batch=2 stride_a=15",
            (
                "stride_a = 15: matrices overlap; give 16 elements or more, or 0 for one that all"
                " products share"
            ),
        ),
        (
            "op=epilogue m=1 n=1 epilogue=swiglu",
            "op = epilogue: step 'swiglu' pairs columns of a product's B; leave op out",
        ),
        (
            "m=1 n=1 k=1 epilogue=swiglu,rms_norm",
            (
                "epilogue step 'swiglu' pairs sums, of which 'rms_norm' needs whole rows;"
                " leave the norm to a kernel of its own, with op = epilogue"
            ),
        ),
        (
            "op=epilogue m=1 n=1 layout=tt layout_d=t epilogue=layer_norm",
            "layout = tt: op = epilogue has no B, whose letter is the second; give tn",
        ),
        (
            "m=1 n=1 k=1 epilogue=layer_norm,rms_norm",
            (
                "epilogue steps 'layer_norm' and 'rms_norm': one norm is all that a"
                " kernel holds; leave the second to a kernel of its own, with op ="
                " epilogue"
            ),
        ),
        (
            "m=1 n=20000000 k=1 epilogue=layer_norm",
            (
                "n = 20000000: too long for epilogue step 'layer_norm'; the most is"
                " 16777216, up to which fp32 counts elements"
            ),
        ),
        (
            "m=1 n=1 k=1 epilogue=layer_norm:eps=0",
            (
                "epilogue step 'layer_norm': eps = 0: give a number above 0; without it a"
                " row of zeros is NaN"
            ),
        ),
        (
            "m=1 n=1 k=1 epilogue=layer_norm:weight=no:weight_dtype=fp32",
            (
                "epilogue step 'layer_norm': weight_dtype = fp32: there is no weight; leave it out,"
                " or give weight: yes"
            ),
        ),
        (
            "m=1 n=1 k=1 epilogue=layer_norm:align=3",
            (
                "epilogue step 'layer_norm': align = 3: give a power of two from 2 to 4096"
                " (bytes), as the weight is fp16"
            ),
        ),
    ],
)
def test_what_cannot_be_is_refused_at_once(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        GemmSpec.from_text(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text",
    [
        "op=epilogue m=4 n=8 dtype=bf16 epilogue=rms_norm:weight_dtype=fp32:bias=yes arch=sm_80",
        "op=epilogue m=4 n=8 dtype=fp16 epilogue=layer_norm:weight=no:bias=no:eps=1e-06 arch=sm_80",
        "op=epilogue m=dynamic:4 n=8 dtype=fp32 dtype_d=bf16 lda=12 align_a=4 arch=sm_80",
        "op=epilogue m=4 n=8 batch=3 dtype=fp16 stride_a=pointers stride_d=40 arch=sm_80",
    ],
)
def test_specs_without_a_product_are_read_back(text: str) -> None:
    spec = GemmSpec.from_text(text)
    assert GemmSpec.from_text(str(spec)) == spec
    assert " k=" not in str(spec)


def test_rows_of_a_matrix_have_blocks_of_their_own() -> None:
    """Eight rows a block would leave seven warps idle where a matrix has one row."""
    text = "op=epilogue m={} n=512 batch={} stride_d=4194312 epilogue=rms_norm arch=sm_90"
    alone, together = (rows_of(text.format(*each)) for each in ((1, 8192), (8, 1024)))
    assert alone.warps_m == 1
    assert together.warps_m > 1
    machine = machine_of(load_arch("sm_90"), "fp16")
    task = row_task(GemmSpec.from_text(text.format(9, 100)), machine)
    assert [task.blocks(warps) for warps in (1, 2, 8)] == [900, 500, 200]


def test_long_rows_of_a_batch_behind_a_product_at_an_m_of_run_time() -> None:
    """Fault seen: M, which such a kernel does not have, where rows of several warps are counted."""
    assert_right("m=dynamic:3 n=4096 k=16 batch=2 epilogue=rms_norm", None, effort=0.1)


def test_too_many_blocks_of_rows() -> None:
    spec = GemmSpec.from_text("op=epilogue m=2147482624 n=8 batch=64 stride_a=shared warps_m=8")
    with pytest.raises(InputError) as caught:
        decide(spec, load_arch(spec.arch))
    assert "make m or batch smaller" in str(caught.value)


def test_a_norm_behind_a_product_says_which_kernel_has_its_rows() -> None:
    spec = GemmSpec.from_text("m=4096 n=4096 k=4096 dtype=bf16 layout=nt arch=sm_90a")
    arch = load_arch("sm_90a", "", 0)
    for steps in ("rms_norm", "residual,store,layer_norm"):
        wanted = GemmSpec.from_text(f"{spec} epilogue={steps}")
        found = {d.id: d for d in explain(wanted, arch).decisions}
        assert found["D14"].question == "whole rows"
        assert found["D14"].choice.startswith("a second kernel: ")
        assert " of the 4096 columns that " in found["D14"].reason
        program = decide(wanted, arch)
        assert [kernel.body.role for kernel in program.kernels] == ["product", "rows"]
        assert program.kernels[0].epilogue == ()
    assert "D14" not in {d.id for d in explain(spec, arch).decisions}


def test_a_tile_that_has_whole_rows_needs_no_second_kernel() -> None:
    arch = load_arch("sm_80", "", 0)
    text = "m={m} n={n} k=256 dtype=bf16 layout=nt arch=sm_80 epilogue=bias,layer_norm"
    spec = GemmSpec.from_text(text.format(m=8192, n=128))
    (kernel,) = decide(spec, arch).kernels
    assert isinstance(kernel.body, MmaSync)
    assert kernel.body.holds_rows
    assert (kernel.body.warps_n, kernel.n.tile) == (1, 128)
    found = {d.id: d for d in explain(spec, arch).decisions}
    assert found["D14"].choice == "the product, 8 lanes a row"
    assert found["D14"].reason == (
        "a warp holds all 128 columns of its rows, so layer_norm needs no second kernel"
    )
    # Wider rows than a tile has, few tiles for many multiprocessors, parts of k: two kernels.
    for m, n, more in ((8192, 264, ""), (300, 120, ""), (8192, 128, " split_k=2")):
        spec = GemmSpec.from_text(text.format(m=m, n=n) + more)
        assert [k.body.role for k in decide(spec, arch).kernels] == ["product", "rows"]


def test_explain_of_a_norm_reads_well() -> None:
    spec = GemmSpec.from_text(ALONE)
    text = format_explanation(explain(spec, load_arch("sm_90a", "H200", 0)))
    assert "[D02] row: 4 warps\n" in text
    assert "slices" not in text
    assert "clocks: memory " in text
    assert "rival  8 warps a row, a row a block, 2 vectors held: 1.000 x the time" in text


def test_a_norm_of_many_rows_is_bound_by_memory() -> None:
    spec = GemmSpec.from_text(ALONE)
    arch = load_arch("sm_90a", "H200", 0)
    task = row_task(spec, machine_of(arch, "bf16"))
    found = cheapest(task, RowMenu())
    assert found is not None
    assert found[1].bound == "device memory"
    few = cheapest(task._replace(rows=4), RowMenu())
    assert few is not None
    assert few[1].bound == "latency"
    assert few[0].warps_n > found[0].warps_n
    assert replace(spec, label="x").norm == spec.norm == 0


@pytest.mark.parametrize(
    ("n", "dtype", "warps", "held"),
    [
        (5120, "bf16", 4, 5),
        (2560, "fp16", 2, 5),
        (10240, "bf16", 8, 5),
        (5120, "fp32", 8, 5),  # ten vectors of four would need an address each
        (6144, "bf16", 8, 3),
    ],
)
def test_a_row_of_five_eighths_leaves_no_thread_idle(
    n: int, dtype: str, warps: int, held: int
) -> None:
    text = f"op=epilogue m=8192 n={n} dtype={dtype} epilogue=layer_norm arch=sm_90a gpu=H200"
    body = rows_of(text)
    assert (body.warps_n, body.held) == (warps, held)
