"""Kernel names, integer expressions, and the architecture table."""

from __future__ import annotations

import re

import pytest

from deepgemm_codegen.arch import known_architectures, load_arch, parse_arch
from deepgemm_codegen.dtypes import DTYPES, parse_dtype
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.expressions import Number, Variable, ceildiv, times
from deepgemm_codegen.naming import kernel_name
from deepgemm_codegen.spec import GemmSpec


def name(**fields: object) -> str:
    return kernel_name(GemmSpec.from_fields({"m": 64, "n": 64, "k": 64, **fields}))


def test_y09_every_parameter_is_in_the_name() -> None:
    """Y09: specs that differ only in a stride, C, a step or an override have different names."""
    names = {
        name(),
        name(ldd=72),
        name(dtype_c="fp16"),
        name(dtype_c="fp16", ldc=72),
        name(epilogue="bias"),
        name(epilogue="bias:row"),
        name(epilogue="relu"),
        name(align_a=2),
        name(stages=3),
        name(sms=7),
    }
    assert len(names) == 10


@pytest.mark.parametrize(("first", "second"), [("a/b", "a_b"), ("Gemm", "gemm"), ("x", "x ")])
def test_y14_y16_labels_that_sanitise_alike_stay_apart(first: str, second: str) -> None:
    """Y14, Y16: also on a file system that folds case."""
    assert name(label=first).lower() != name(label=second).lower()


@pytest.mark.parametrize(
    "label", ["x; system(1)", "int main(){}", "日本", "9lives", "", '"', "a" * 999]
)
def test_a_name_is_a_c_identifier(label: str) -> None:
    found = name(label=label)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", found)
    assert len(found) < 100


def test_expressions_agree_in_python_and_text() -> None:
    blocks = times(ceildiv(Variable("m"), 128), ceildiv(Number(1000), 64))
    assert str(blocks) == "ceildiv(m, 128) * 16"
    assert blocks.evaluate({"m": 129}) == 32
    assert times(Number(1), Variable("m")) == Variable("m")
    assert times(Number(3), Number(4)) == Number(12)


@pytest.mark.parametrize("arch", known_architectures())
def test_every_architecture_is_complete(arch: str) -> None:
    facts = load_arch(arch)
    assert facts.name == arch
    assert facts.gpu == facts.gpus[0]
    assert 48 * 1024 <= facts.shared_per_block <= facts.shared_per_sm
    assert facts.shared_per_block + facts.shared_reserved <= facts.shared_per_sm
    assert facts.cp_async == (facts.number >= 80)
    assert facts.mma_bytes == (32 if facts.number >= 80 else 16)
    assert set(facts.dtypes) <= set(DTYPES)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("sm_90a", (90, "a")),
        ("sm_100a", (100, "a")),
        ("sm_120a", (120, "a")),
        ("sm_100f", (100, "f")),
        ("12.0", (120, "")),
        ("120", (120, "")),
        ("8.9", (89, "")),
        ("86", (86, "")),
        ("compute_80", (80, "")),
        ("SM_80", (80, "")),
    ],
)
def test_r06_r09_forms_of_an_architecture(text: str, parsed: tuple[int, str]) -> None:
    """R06, R09: suffixes are kept, dotted and bare numbers are understood."""
    assert parse_arch(text) == parsed


@pytest.mark.parametrize("arch", ["sm_100", "sm_120"])
def test_r07_three_digit_architectures_are_newer_than_turing(arch: str) -> None:
    """R07: compared as numbers, not as text."""
    assert load_arch(arch).number > load_arch("sm_75").number


@pytest.mark.parametrize("arch", ["sm_121", "sm_121a"])
def test_r04_sm_121_is_served_by_its_family(arch: str) -> None:
    """R04: mapped to sm_120, and the note says so."""
    facts = load_arch(arch)
    assert facts.name == "sm_120"
    assert "sm_121 is served by the code of sm_120" in facts.note


def test_r11_an_unknown_architecture_names_the_known() -> None:
    """R11: never a silent empty build."""
    with pytest.raises(InputError) as caught:
        load_arch("sm_999")
    assert str(caught.value) == (
        f"arch = sm_999: no facts for sm_999; known: {', '.join(known_architectures())}"
        " (the nearest is 'sm_120')"
    )


def test_gpus_and_multiprocessors_can_be_chosen() -> None:
    assert load_arch("sm_90", "h200").gpu.memory_gbs == 4800
    assert load_arch("sm_90", "", 66).gpu.sms == 66
    with pytest.raises(InputError) as caught:
        load_arch("sm_90", "H300")
    assert str(caught.value) == (
        "gpu = H300: not a known sm_90 GPU; known: H100 SXM, H200 (did you mean 'H200'?);"
        " or give --sms=COUNT"
    )


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_element_types_agree_with_their_numpy_twins(dtype: object) -> None:
    found = parse_dtype(str(dtype))
    assert found.numpy().itemsize == found.bytes
