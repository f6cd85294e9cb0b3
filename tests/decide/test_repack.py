"""Whether operands are read as they lie or copied first: the tree's answer, and given ones."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import Copies, RepackChoice, decide
from deepgemm_codegen.decide.explain import explain
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.decide.mma_sync.family import MMA_SYNC
from deepgemm_codegen.decide.repack import as_copied, copies_for, repack_clocks
from deepgemm_codegen.decide.wgmma.family import WGMMA
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.plan import Program, Repack, Wgmma
from deepgemm_codegen.plan.expressions import Number
from deepgemm_codegen.spec import GemmSpec

from .specs import random_spec


def program_of(text: str) -> Program:
    spec = GemmSpec.from_text(text)
    return decide(spec, load_arch(spec.arch, spec.gpu))


def roles_of(text: str) -> list[str]:
    return [kernel.body.role for kernel in program_of(text).kernels]


BOTH = Copies(("a", "b"))
ODD = ["m=1023 n=1023 k=1023", "m=4097 n=4097 k=4097", "m=997 n=1009 k=1013"]


@pytest.mark.parametrize("shape", ODD)
@pytest.mark.parametrize("layout", ["nt", "nn"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a"])
def test_large_odd_products_are_repacked(shape: str, layout: str, arch: str) -> None:
    program = program_of(f"{shape} layout={layout} arch={arch}")
    assert [kernel.body.role for kernel in program.kernels] == ["repack", "product"]
    if arch == "sm_90a":
        assert isinstance(program.product.body, Wgmma)


def test_small_ones_and_aligned_ones_are_not() -> None:
    assert roles_of("m=100 n=101 k=103 arch=sm_90a") == ["product"]
    assert roles_of("m=1024 n=1024 k=1024 arch=sm_90a") == ["product"]
    assert roles_of("m=1 n=50257 k=768 arch=sm_90a") == ["product"]
    assert roles_of("m=1024 n=1024 k=1024 arch=sm_90a repack=on") == ["product"]


def test_gpt2s_vocabulary_is_repacked_where_its_rows_are_odd() -> None:
    """B of 768 rows of 50257 is copied; the same transposed has rows of 768."""
    first = program_of("m=1024 n=50257 k=768 arch=sm_90a").kernels[0].body
    assert isinstance(first, Repack)
    assert [matrix.source for matrix in first.matrices] == ["b"]
    assert roles_of("m=1024 n=50257 k=768 layout=nt arch=sm_90a") == ["product"]


@pytest.mark.parametrize(
    ("fields", "letters"),
    [
        ("", ""),
        ("lda=1032", ""),
        ("lda=1028", "a"),
        ("ldb=1025 align_a=8", "ab"),
        ("align_b=2", "b"),
        ("m=1 lda=1025 layout=nt", ""),  # one row: no stride to mind
        ("k=1020 batch=2 lda=1020", "a"),
        ("n=dynamic", "b"),
        ("dtype=int8 arch=sm_80 lda=1032", "a"),
        ("k=0 align_a=2", ""),
        ("align_b=2 repack=off", ""),
    ],
)
def test_what_a_copy_helps(fields: str, letters: str) -> None:
    given = dict(word.split("=") for word in fields.split())
    sizes = {"m": "1024", "n": "1024", "k": "1024", "arch": "sm_90a"}
    spec = GemmSpec.from_fields({**sizes, **given})
    assert copies_for(spec) == Copies(tuple(letters))


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("m=1023 n=1009 k=1013 arch=sm_90a", [False, True]),
        ("m=1023 n=1009 k=1013 layout=tn arch=sm_90a", [True, True]),
        ("m=1023 n=1009 k=1013 layout=nt arch=sm_90a", [False, False]),  # along k a slice's only
        ("m=1023 n=1009 k=1013 layout=tn arch=sm_80", [False, False]),  # threads read the copies
        ("m=1023 n=dynamic:1009 k=1013 arch=sm_90a repack=on family=wgmma", [False, False]),
        ("m=1023 n=1009 k=1013 dtype=int8 layout=nn arch=sm_90a", [False, False]),  # turned
    ],
)
def test_rows_of_copies_along_m_or_n_are_read_up_to_the_next(text: str, filled: list[bool]) -> None:
    program = program_of(text)
    copies, product = program.kernels[0].body, program.product
    assert isinstance(copies, Repack)
    assert [matrix.filled for matrix in copies.matrices] == filled
    if isinstance(product.body, Wgmma):
        inner = [each.inner for each in product.tensor_maps if each.pointer != "d"]
        assert [size == Number(1024) for size in inner] == filled


def test_copies_start_on_lines_and_their_rows_too() -> None:
    spec = as_copied(GemmSpec.from_text("m=100 n=dynamic:131 k=1023 dtype=bf16"), BOTH)
    assert (spec.lda, spec.ldb, spec.align_a, spec.align_b) == (1024, 192, 256, 256)
    spec = as_copied(GemmSpec.from_text("m=100 n=129 k=1023 dtype=int8"), Copies(("b",)))
    assert (spec.lda, spec.ldb) == (1023, 256)


@pytest.mark.parametrize("family", [WGMMA, MMA_SYNC], ids=["wgmma", "mma_sync"])
def test_the_copies_cost_is_in_the_answers(family: object) -> None:
    spec = GemmSpec.from_text("m=1023 n=1023 k=1023 arch=sm_90a repack=on")
    setting = setting_of(spec, load_arch("sm_90a"))
    answer = family.best(setting)  # type: ignore[attr-defined]
    copied = replace(as_copied(spec, BOTH), overrides=replace(spec.overrides, repack=None))
    alone = family.best(setting_of(copied, setting.arch))  # type: ignore[attr-defined]
    copying = repack_clocks(spec, setting.machine, BOTH)
    assert answer.clocks == answer.prediction().clocks == pytest.approx(alone.clocks + copying)
    assert answer.choice == RepackChoice(alone.choice, BOTH)
    assert answer.choice.words == f"A and B repacked, {alone.choice.words}"


def test_a_copy_is_cheaper_than_none_as_predicted() -> None:
    rng = random.Random(6)
    copies = 0
    for _ in range(60):
        spec = random_spec(rng)
        setting = setting_of(spec, load_arch(spec.arch))
        found = MMA_SYNC.best(setting)
        assert found is not None
        if not isinstance(found.choice, RepackChoice):
            continue
        copies += 1
        other = GemmSpec.from_text(f"{spec} repack=off")
        without = MMA_SYNC.best(setting_of(other, setting.arch))
        assert without is not None
        assert found.clocks < without.clocks
    assert copies > 5


def test_of_gigabytes_nothing_is_copied_unasked() -> None:
    text = "m=30001 n=2048 k=20001 arch=sm_90"
    assert roles_of(text) == ["product"]
    assert roles_of(f"{text} repack=on") == ["repack", "product"]


def test_the_question_is_explained() -> None:
    spec = GemmSpec.from_text("m=1000 n=1023 k=1023 align_a=2 arch=sm_90a gpu=H200")
    last = explain(spec, load_arch("sm_90a", "H200")).decisions[-1]
    assert (last.id, last.question, last.choice) == ("D13", "operands", "A and B repacked")
    assert last.reason.startswith("align_a = 2 and ldb = 1023: rows start off 16 bytes; ")
    assert last.rival == "none: no kernel of the family reads them as they lie"
    spec = replace(spec, overrides=replace(spec.overrides, family="mma_sync"))
    last = explain(spec, load_arch("sm_90a", "H200")).decisions[-1]
    assert last.rival.startswith("as they lie, ")
    assert float(last.rival.rsplit(": ", 1)[1].split()[0]) > 1


def test_three_kernels_where_k_is_cut_as_well() -> None:
    assert roles_of("m=65 n=65 k=16385 arch=sm_90a") == ["repack", "product", "reduce"]


def test_a_family_that_never_copies_is_out_where_copies_are_wanted() -> None:
    roles = roles_of("m=1 n=1023 k=1023 arch=sm_90a repack=on split_k_from=0")
    assert roles == ["repack", "product"]
    with pytest.raises(InputError) as caught:
        program_of("m=64 n=63 k=63 dtype=fp32 repack=on")
    assert str(caught.value).startswith("repack = on: ")


def test_a_word_that_is_none() -> None:
    with pytest.raises(InputError) as caught:
        program_of("m=64 n=64 k=64 repack=maybe")
    assert str(caught.value) == "repack = maybe: unknown; give on or off"
