"""Names of architectures, and what runs where."""

from __future__ import annotations

import pytest

from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.toolchain import explain_mismatch, target_for
from deepgemm_codegen.toolchain.targets import Target


@pytest.mark.parametrize("name", ["sm_80", "sm_90a", "sm_100f", "sm_120"])
def test_names_round_trip(name: str) -> None:
    target = Target.parse(name)
    assert str(target) == name
    assert target.compute == name.replace("sm", "compute")
    assert Target.parse(target.compute) == target


@pytest.mark.parametrize("name", ["", "80", "sm_8", "sm_90b", "SM_80", "sm_80 ", "sm_1000"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InternalError) as caught:
        Target.parse(name)
    assert str(caught.value) == f"architecture {name!r} is not of the form sm_80 or sm_90a"


def test_r21_an_old_compiler_gets_the_a_variant() -> None:
    """R21: compiler 12.8 with target sm_100f falls back to sm_100a."""
    assert Target.parse("sm_100f").known_to((12, 8)) == Target.parse("sm_100a")
    assert Target.parse("sm_100f").known_to((12, 9)) == Target.parse("sm_100f")
    assert Target.parse("sm_100a").known_to((12, 8)) == Target.parse("sm_100a")
    assert Target.parse("sm_100").known_to((12, 8)) == Target.parse("sm_100")


def test_r19_a_mismatch_is_explained() -> None:
    """R19: built for sm_75, run on sm_89."""
    assert explain_mismatch("sm_75", "sm_89", ptx=False) == (
        "built for sm_75, but the device is sm_89: a cubin runs on parts of the same major number "
        "that are not older; build again for sm_89"
    )
    assert explain_mismatch("sm_75", "sm_89", ptx=True) is None


@pytest.mark.parametrize(
    ("built", "device", "ptx", "runs"),
    [
        ("sm_80", "sm_86", False, True),
        ("sm_86", "sm_80", False, False),
        ("sm_80", "sm_90", False, False),
        ("sm_80", "sm_120", True, True),
        ("sm_90", "sm_89", True, False),
        ("sm_90a", "sm_90", False, True),
        ("sm_90a", "sm_100", True, False),
        ("sm_100a", "sm_103", True, False),
        ("sm_100f", "sm_103", False, True),
        ("sm_100f", "sm_120", True, False),
        ("sm_103f", "sm_100", False, False),
    ],
)
def test_what_runs_where(built: str, device: str, *, ptx: bool, runs: bool) -> None:
    assert (explain_mismatch(built, device, ptx=ptx) is None) == runs


@pytest.mark.parametrize(
    ("target", "here", "built"),
    [
        ("sm_80", "sm_80", "sm_80"),
        ("sm_80", "sm_86", "sm_80"),
        ("sm_80", "sm_90", "sm_90"),
        ("sm_90", "sm_80", "sm_90"),
        ("sm_90a", "sm_90", "sm_90a"),
        ("sm_90a", "sm_100", "sm_90a"),
    ],
)
def test_what_to_build_for(target: str, here: str, built: str) -> None:
    assert target_for(target, here) == built
