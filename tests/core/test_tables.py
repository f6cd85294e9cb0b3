"""The tables of architectures and of element types."""

from __future__ import annotations

import pytest

from deepgemm_codegen.arch import known_architectures, known_targets, load_arch, parse_arch
from deepgemm_codegen.dtypes import DTYPES, parse_dtype
from deepgemm_codegen.errors import InputError


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
        f"arch = sm_999: no facts for sm_999; known: {', '.join(known_targets())}"
        " (the nearest is 'sm_120')"
    )


def test_gpus_and_multiprocessors_can_be_chosen() -> None:
    assert load_arch("sm_90", "h200").gpu.memory_gbs == 4800
    assert load_arch("sm_90", "", 66).gpu.sms == 66
    for count, wrong in ((-1, "too small"), (True, "not a whole number"), (2**31, "too large")):
        with pytest.raises(InputError, match=f"^sms = {count}: {wrong}"):
            load_arch("sm_90", "", count)
    assert load_arch("sm_89", "L4").gpu.name == "L4"
    assert load_arch("sm_89", "l40s").gpu.name == "L40S"
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
