"""The report as text, JSON and roofline."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.harness import bench_roofline
from deepgemm_codegen.harness.bench_data import FUSED, PLAIN, WRITING, RivalTime
from deepgemm_codegen.harness.bench_roofline import draw, require_matplotlib, roofline
from deepgemm_codegen.harness.bench_stats import Ceilings
from deepgemm_codegen.harness.bench_table import as_json, plain
from tests.harness.bench_support import report, timing, with_own_plain

TABLE = """\
Paper GPU, sm_90, 132 multiprocessors
cupy 14.0; cuBLAS 130002
ceilings: 4500 GB/s, mma.sync 610 TFLOP/s (data sheet: no compiler), wgmma 820 TFLOP/s

kernel               type     plan                      us  spread  TFLOP/s  GB/s  of ceiling  cuBLAS us  ratio  cuBLASLt us  ratio
-------------------  -------  ---------------------  -----  ------  -------  ----  ----------  ---------  -----  -----------  -----
cube 4096x4096x4096  fp16 nt  128x256x64 3st sm_90a  180.0    1.0%      764   559         93%      189.0  1.050        181.8  1.010
1x4096x4096          bf16 nt  16x64x128 6st sm_90    10.00    1.0%      3.4  3355         75%       9.00  0.900            -      -
64x64x64             fp16 nn  64x64x32 4st sm_90         -       -        -     -           -          -      -            -      -

geometric mean, aligned, fp16, 1 kernel: cuBLAS 1.050, cuBLASLt 1.010
geometric mean, decode (m <= 16), bf16, 1 kernel: cuBLAS 0.900
geometric mean, all, 2 kernels: cuBLAS 0.972, cuBLASLt 1.010

1x4096x4096 bf16 nt: planned for sm_80, built for sm_90 from the same source
1x4096x4096 bf16 nt: cuBLASLt: cublasLtMatmulAlgoGetHeuristic: not supported
64x64x64 fp16 nn: wrong, not timed: 3 of 1024 sampled elements of D
ratio: the library's time over the kernel's, above 1 is faster; cuBLAS is its default algorithm, cuBLASLt the best of its top eight heuristics
"""  # noqa: E501  a table


def test_the_table() -> None:
    assert plain(report()) == TABLE


def test_an_epilogue_that_cublaslt_fuses_has_a_mean_of_its_own() -> None:
    """The plain product is averaged by shape, cublasLt's own epilogue by epilogue."""
    whole = report()
    cube, second, wrong = whole.rows
    rows = [
        replace(cube, steps=steps, rivals=(*cube.rivals, RivalTime(FUSED, timing(us), note)))
        for steps, us, note in (
            ("bias:fp16,gelu_tanh", 180.0 * 1.21, "heuristic 1 of 8"),
            ("bias:fp16,gelu_tanh", 180.0, "heuristic 1 of 8"),
            ("bias:fp16,gelu", 180.0 * 1.05, "heuristic 1 of 8; it has none"),
        )
    ]
    text = plain(replace(whole, rows=(*rows, second, wrong)))
    assert "cube 4096x4096x4096 bias:fp16,gelu_tanh  fp16 nt" in text
    assert (
        "geometric mean, all, 4 kernels: cuBLAS 1.010, cuBLASLt 1.010\n"
        "geometric mean, bias:fp16,gelu_tanh, fp16, 2 kernels: cuBLASLt fused 1.100\n"
        "geometric mean, bias:fp16,gelu, fp16, 1 kernel: cuBLASLt fused 1.050\n"
    ) in text
    assert "\ncube: cuBLASLt fused: it has none\n" in text
    assert text.endswith(
        "heuristics, both of the plain product; cuBLASLt fused computes what the kernel does\n"
    )
    groups = json.loads(as_json(replace(whole, rows=tuple(rows))))["groups"]
    assert [(g["name"], g["fused"]) for g in groups] == [
        ("aligned, fp16", False),
        ("bias:fp16,gelu_tanh, fp16", True),
        ("bias:fp16,gelu, fp16", True),
    ]
    assert [(g["rival"], g["least"]) for g in groups] == [
        (None, None),
        ("cuBLASLt fused", pytest.approx(1.0)),
        ("cuBLASLt fused", pytest.approx(1.05)),
    ]


def test_our_own_plain_product_has_a_column_and_a_mean_and_the_least_of_an_epilogue() -> None:
    whole = with_own_plain()
    text = plain(whole)
    lines = text.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("kernel"))
    assert lines[head].endswith("cuBLASLt us  ratio  own plain us  ratio")
    assert lines[head + 2].endswith("181.8  1.010         174.6  0.970")
    assert lines[head + 5].endswith("-      -")
    assert [line for line in lines if line.startswith("geometric")] == [
        "geometric mean, aligned, fp16, 3 kernels: cuBLAS 1.050, cuBLASLt 1.010",
        "geometric mean, decode (m <= 16), bf16, 1 kernel: cuBLAS 0.900",
        "geometric mean, all, 4 kernels: cuBLAS 1.010, cuBLASLt 1.010",
        "geometric mean, bias:fp16,gelu, fp16, 2 kernels: own plain 0.960, least 0.950",
        "geometric mean, quantize:int8, fp16, 1 kernel: own plain 1.060",
    ]
    assert (
        "\ncube: own plain: planned as 128x192x64 4st\n" in text
    )  # another plan than the kernel's
    assert "\ncube: own plain: planned as 128x256x64 3st, D in fp16\n" in text
    assert "planned as 128x256x64 3st\n" not in text
    assert text.endswith(
        "heuristics; own plain is our own kernel without the steps, so that 0.960 says that they"
        " take 4 % of the kernel's time\n"
    )
    assert PLAIN not in {side.name for side in roofline(whole).series}


def test_why_there_is_no_plain_product_stands_below_the_table() -> None:
    whole = report()
    cube, *others = whole.rows
    why = "swiglu makes D half as wide as the product"
    beside = replace(cube, rivals=(*cube.rivals, RivalTime(PLAIN, None, why)))
    text = plain(replace(whole, rows=(beside, *others)))
    assert f"\ncube: own plain: {why}\n" in text
    assert not any("own plain" in x for x in text.splitlines() if x.startswith("geometric"))


def test_json_has_our_own_plain_product_as_a_rival_and_in_groups_of_its_own() -> None:
    document = json.loads(as_json(with_own_plain()))
    beside = document["kernels"][1]["against"]["own plain"]
    assert (beside["us"], beside["note"]) == (171.0, "128x192x64 4st")
    assert beside["ratio"] == pytest.approx(0.95)
    groups = [(g["name"], g["count"], g["fused"], g["rival"]) for g in document["groups"]]
    assert groups == [
        ("aligned, fp16", 3, False, None),
        ("decode (m <= 16), bf16", 1, False, None),
        ("all", 4, False, None),
        ("bias:fp16,gelu, fp16", 2, False, "own plain"),
        ("quantize:int8, fp16", 1, False, "own plain"),
    ]
    by_shape, by_steps = document["groups"][2], document["groups"][3]
    assert by_shape["least"] is None
    assert list(by_shape["geometric_mean"]) == ["cuBLAS", "cuBLASLt"]
    assert by_steps["least"] == pytest.approx(0.95)
    mean = (0.97 * 0.95) ** 0.5
    assert by_steps["geometric_mean"] == {"own plain": pytest.approx(mean)}


def test_the_writing_of_d_alone_has_a_column_and_no_mean() -> None:
    whole = report()
    cube, *others = whole.rows
    beside = replace(cube, rivals=(*cube.rivals, RivalTime(WRITING, timing(90.0), "9 bytes")))
    whole = replace(whole, rows=(beside, *others))
    text = plain(whole)
    lines = text.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("kernel"))
    assert lines[head].endswith("cuBLASLt us  ratio  writing D us  ratio")
    assert lines[head + 2].endswith("181.8  1.010         90.00  0.500")
    assert lines[head + 3].endswith("-      -")
    assert "mean, all, 3 kernels" not in text
    assert not any("writing D" in line for line in lines if line.startswith("geometric"))
    assert text.endswith(
        "heuristics; writing D is a kernel that writes D's bytes and nothing else\n"
    )
    assert WRITING not in {side.name for side in roofline(whole).series}


def test_without_rivals_there_are_no_columns_for_them() -> None:
    whole = report()
    alone = replace(whole, against="none", rows=tuple(replace(r, rivals=()) for r in whole.rows))
    text = plain(alone)
    assert "cuBLAS us" not in text
    assert "ratio" not in text
    assert "geometric" not in text


def test_a_note_that_concerns_all_says_so() -> None:
    whole = report()
    rows = tuple(replace(row, notes=("odd",), message="") for row in whole.rows)
    assert "\nall: odd\n" in plain(replace(whole, rows=rows))
    five = tuple(replace(row, label=f"k{i}") for i, row in enumerate([*rows, *rows[:2]]))
    five = (replace(five[0], notes=()), *five[1:])
    assert "\nk1, k2, k3 and 1 more: odd\n" in plain(replace(whole, rows=five))


def test_json_holds_the_figures() -> None:
    document = json.loads(as_json(report(), exit_code=1, seed=0))
    assert document["format"] == "1.4"
    assert (document["exit_code"], document["seed"]) == (1, 0)
    assert document["machine"]["software"] == {"cupy": "14.0", "cuBLAS": "130002"}
    assert document["ceilings"] == {
        "gbs": 4500.0,
        "write_gbs": None,
        "tflops": {"mma.sync": 610.0, "wgmma": 820.0},
        "measured": ["memory", "wgmma"],
    }
    cube, second, wrong = document["kernels"]
    assert cube["us"] == 180.0
    assert cube["against"]["cuBLAS"]["ratio"] == pytest.approx(1.05)
    assert cube["against"]["cuBLASLt"]["note"] == "heuristic 2 of 8"
    assert second["against"]["cuBLASLt"]["us"] is None
    assert second["of_ceiling"] == pytest.approx(0.7457, abs=1e-4)
    assert (wrong["us"], wrong["exit_code"], wrong["against"]) == (None, 1, {})
    assert [group["name"] for group in document["groups"]][-1] == "all"
    assert document["groups"][1]["geometric_mean"] == {
        "cuBLAS": pytest.approx(0.9),
        "cuBLASLt": None,
    }


def test_the_roofline_has_a_point_a_side_and_a_roof_an_instruction() -> None:
    figure = roofline(report())
    assert figure.title == "Paper GPU, 4500 GB/s"
    names = [roof.name for roof in figure.roofs]
    assert names == ["mma.sync 610 TFLOP/s, data sheet", "wgmma 820 TFLOP/s"]
    for roof, rate in zip(figure.roofs, (610.0, 820.0), strict=True):
        (low, low_rate), (ridge, top), (right, end) = roof.points
        assert low < ridge < right
        assert top == end == rate
        assert low_rate / low == pytest.approx(4.5)
        assert top / ridge == pytest.approx(4.5)
    assert [(side.name, len(side.points)) for side in figure.series] == [
        ("deepgemm_codegen", 2),
        ("cuBLAS", 2),
        ("cuBLASLt", 1),
    ]
    assert figure.series[0].points[0] == pytest.approx((4096 / 3, 763.5497), abs=1e-3)
    for x, y in figure.series[0].points:
        assert y <= max(rate for _, rate in [(0, 820.0)])
        assert y <= 4.5 * x


def test_a_roofline_of_nothing_still_has_its_roofs() -> None:
    figure = roofline(replace(report(), rows=(), ceilings=Ceilings(1.0, {"mma.sync": 2.0})))
    assert figure.series[0].points == ()
    assert figure.title == "Paper GPU, 1 GB/s (data sheet)"


def test_without_matplotlib_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_roofline, "find_spec", lambda _: None)
    message = r"^--plot needs matplotlib: pip install 'deepgemm_codegen\[plot\]'$"
    with pytest.raises(EnvironmentLackError, match=message):
        require_matplotlib()
    with pytest.raises(EnvironmentLackError, match=message):
        draw(roofline(report()))


def test_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[Any, ...]] = []

    class Axes:
        def plot(self, xs: Any, ys: Any, *style: Any, **more: Any) -> None:
            assert len(xs) == len(ys)
            drawn.append((more["label"], len(xs), *style))

        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: None

    class Figure:
        def __init__(self, **_: Any) -> None:
            self.add_subplot = Axes

        def savefig(self, target: Any, **kind: Any) -> None:
            assert kind == {"format": "png"}
            target.write(b"png")

    modules: dict[str, dict[str, Any]] = {
        "matplotlib": {},
        "matplotlib.figure": {"Figure": Figure},
        "matplotlib.backends": {},
        "matplotlib.backends.backend_agg": {"FigureCanvasAgg": lambda _: None},
    }
    for name, fields in modules.items():
        module = ModuleType(name)
        module.__dict__.update(fields)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(bench_roofline, "find_spec", lambda _: SimpleNamespace())
    assert draw(roofline(report())) == b"png"
    assert drawn == [
        ("mma.sync 610 TFLOP/s, data sheet", 3, "-"),
        ("wgmma 820 TFLOP/s", 3, "--"),
        ("deepgemm_codegen", 2, "o"),
        ("cuBLAS", 2, "+"),
        ("cuBLASLt", 1, "x"),
    ]


def test_matplotlib_itself_draws_a_png() -> None:
    pytest.importorskip("matplotlib")
    assert draw(roofline(report())).startswith(b"\x89PNG")


def test_a_terminal_gets_the_same_table_in_colour() -> None:
    pytest.importorskip("rich")
    from deepgemm_codegen.harness.bench_rich import render  # noqa: PLC0415  needs rich

    text = render(report(), width=200)
    assert "\x1b[32m1.050\x1b[0m" in text
    assert "\x1b[31m0.900\x1b[0m" in text
    for line in TABLE.splitlines():
        for word in line.split():
            assert word in text or set(word) == {"-"}, word
    assert render(report(), width=80) == ""  # too narrow: the plain table is better
    told = render(with_own_plain(), width=240)
    assert "0.970" in told  # a part of the kernel's time is neither good nor bad
    assert not re.search(r"\x1b\[3[123]m0\.970", told)
    assert "\x1b[32m1.050\x1b[0m" in told


def test_the_head_names_the_ceiling_of_writing_where_it_was_measured() -> None:
    ceilings = Ceilings(4500.0, {"mma.sync": 610.0}, ("memory", "writing", "mma.sync"), (), 3300.0)
    told = plain(replace(report(), ceilings=ceilings))
    assert "ceilings: 4500 GB/s read, 3300 GB/s written, mma.sync 610 TFLOP/s\n" in told
