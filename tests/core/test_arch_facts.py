"""Facts files: what is in none of them may pass, and each mistake is told by file, line and key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from deepgemm_codegen import arch as arch_module
from deepgemm_codegen.arch import known_architectures, known_targets, load_arch
from deepgemm_codegen.arch_facts import FACTS, read_facts
from deepgemm_codegen.cli.entry import run
from deepgemm_codegen.emulator.faults import UnknownArithmeticError
from deepgemm_codegen.emulator.generations import arithmetic
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.resources import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = data_folder("configs") / "arch"
TEXT = (FOLDER / "sm_86.yaml").read_text(encoding="utf-8")

MISTAKES: dict[str, tuple[str, str, str]] = {
    "a word for a number": (
        "threads_per_sm: 1536",
        "threads_per_sm: lots",
        (
            "11: threads_per_sm = lots: give a whole number from 1024 to 8192, a multiple of 32:"
            " resident threads of a multiprocessor"
        ),
    ),
    "nothing for a number": (
        "blocks_per_sm: 16",
        "blocks_per_sm:",
        (
            "12: blocks_per_sm = nothing: give a whole number from 1 to 32: resident blocks of a"
            " multiprocessor"
        ),
    ),
    "no multiprocessor": (
        "sms: 82",
        "sms: 0",
        "5: gpus[0].sms = 0: give a whole number from 1 to 4096: multiprocessors",
    ),
    "a part of a number": (
        "clock_mhz: 1740",
        "clock_mhz: 1.74",
        (
            "7: gpus[2].clock_mhz = 1.74: give a whole number from 1 to 10000 (MHz): boost clock"
            " that the cost model reckons with"
        ),
    ),
    "a negative number": (
        "registers_per_sm: 65536",
        "registers_per_sm: -1",
        (
            "13: registers_per_sm = -1: give a whole number from 32768 to 1048576, a multiple of"
            " 256: 32-bit registers of a multiprocessor"
        ),
    ),
    "no multiple": (
        "registers_per_sm: 65536",
        "registers_per_sm: 65535",
        (
            "13: registers_per_sm = 65535: give a whole number from 32768 to 1048576, a multiple of"
            " 256: 32-bit registers of a multiprocessor"
        ),
    ),
    "an instruction that nobody has": (
        "mma_bytes: 32",
        "mma_bytes: 24",
        (
            "14: mma_bytes = 24: give 16 or 32 (bytes): bytes of k that an mma.sync multiplies: 32"
            " for m16n8k16 and m16n8k32, 16 for m16n8k8 and m8n8k16"
        ),
    ),
    "a type that the narrow one has not": (
        "mma_bytes: 32",
        "mma_bytes: 16",
        (
            "19: mma_flops_per_clock.bf16: with mma_bytes = 16 there is no instruction for it,"
            " only for fp16, int8, uint8; leave it out, or give mma_bytes 32"
        ),
    ),
    "more than a multiprocessor has": (
        "shared_per_block_kb: 99",
        "shared_per_block_kb: 128",
        (
            "8: shared_per_block_kb = 128: with shared_reserved_kb = 1 it is more than"
            " shared_per_sm_kb = 100; the largest is 99"
        ),
    ),
    "more bits than a float has": (
        "threads_per_sm: 1536\nblocks_per_sm: 16",
        "threads_per_sm: 1024\nblocks_per_sm: 32\nfp8_sum_bits: 24",
        (
            "13: fp8_sum_bits = 24: give a whole number from 1 to 23 (bits): fraction bits that the"
            " tensor cores keep of fp8 sums; without it 23, all of fp32"
        ),
    ),
    "a number for a switch": (
        "cp_async: true",
        "cp_async: 1",
        (
            "15: cp_async = 1: give true or false: whether global memory is copied to shared memory"
            " asynchronously"
        ),
    ),
    "a switch for a number": (
        "shared_reserved_kb: 1 ",
        "shared_reserved_kb: yes ",
        (
            "10: shared_reserved_kb = true: give a whole number from 0 to 16 (KiB): of which the"
            " driver keeps for itself, a block"
        ),
    ),
    "a key that is missing": (
        "cp_async: true\n",
        "",
        (
            "4: cp_async is missing; give true or false: whether global memory is copied to shared"
            " memory asynchronously"
        ),
    ),
    "a key that is misspelt": (
        "cp_async:",
        "cp_asinc:",
        f"15: unknown key 'cp_asinc' (did you mean 'cp_async'?); known: {', '.join(FACTS)}",
    ),
    "a GPU's key that is misspelt": (
        "sms: 72",
        "sm: 72",
        (
            "6: unknown key 'gpus[1].sm' (did you mean 'sms'?); known: name, sms, l2_mb,"
            " memory_gbs, clock_mhz, mma_flops_per_clock"
        ),
    ),
    "a key twice": (
        "cp_async: true",
        "cp_async: true\ncp_async: false",
        "16: cp_async stands in line 15 already; leave one of them out",
    ),
    "a type that is none": (
        "fp16: 512",
        "pf16: 512",
        (
            "18: mma_flops_per_clock.pf16: no operand type (did you mean 'fp16'?); known: fp16,"
            " bf16, e4m3, e5m2, int8, uint8"
        ),
    ),
    "no rate": (
        "fp16: 512",
        "fp16: 0",
        "18: mma_flops_per_clock.fp16 = 0: give a whole number from 1 to 1048576 (FLOP a clock)",
    ),
    "a rate of a type that the architecture has not": (
        "clock_mhz: 1740, mma_flops_per_clock: {fp16: 1024, bf16: 1024}",
        "clock_mhz: 1740, mma_flops_per_clock: {e4m3: 2048}",
        ("7: gpus[2].mma_flops_per_clock.e4m3: mma_flops_per_clock has no e4m3; give it there"),
    ),
    "a GPU without rates": (
        "clock_mhz: 1740, mma_flops_per_clock: {fp16: 1024, bf16: 1024}",
        "clock_mhz: 1740, mma_flops_per_clock: {}",
        (
            "7: gpus[2].mma_flops_per_clock = a table: give a table of operand types, each with a"
            " whole number above 0 (FLOP a clock): as outside, of the types in which this GPU"
            " differs"
        ),
    ),
    "a GPU twice": (
        "name: A40",
        "name: A10",
        "7: gpus: two are named A10; leave out one",
    ),
    "an instruction of another architecture": (
        "cp_async: true",
        "cp_async: true\nwgmma: {suffix: a, flops_per_clock: {fp16: 4096}, l2_bytes_per_clock: 75}",
        "16: wgmma: sm_86 has no such instruction, only sm_90; leave it out",
    ),
    "a table that is none": (
        "cp_async: true",
        "cp_async: true\nwgmma: a",
        (
            "16: wgmma is no table; it has suffix, flops_per_clock, l2_bytes_per_clock"
            " (docs/reference.md lists the keys)"
        ),
    ),
}


def refused(path: Path, text: str) -> str:
    """What is said of a file, without its name."""
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_facts(path)
    head = f"configs/arch/{path.name}:"
    assert str(caught.value).startswith(head)
    return str(caught.value).removeprefix(head)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_by_file_line_and_key(mistake: str, tmp_path: Path) -> None:
    right, wrong, said = MISTAKES[mistake]
    assert TEXT.count(right) == 1
    assert refused(tmp_path / "sm_86.yaml", TEXT.replace(right, wrong)) == said


@pytest.mark.parametrize("name", known_architectures())
def test_shipped_files_have_no_mistake(name: str) -> None:
    assert set(read_facts(FOLDER / f"{name}.yaml")) <= set(FACTS)


def places(facts: object, outer: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where every key and item of a file is."""
    inner = facts.items() if isinstance(facts, dict) else enumerate(facts)  # type: ignore[arg-type]
    for key, value in inner:
        yield (*outer, key)
        if isinstance(value, dict | list):
            yield from places(value, (*outer, key))


PLACES = list(places(yaml.safe_load((FOLDER / "sm_90.yaml").read_text(encoding="utf-8"))))
OPTIONAL = {"fp8_sum_bits", "wgmma", "plain_note"}


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_no_value_is_taken_unseen(place: tuple[str | int, ...], tmp_path: Path) -> None:
    """Each value in turn is left out, or replaced by what no key takes."""
    junk = [None, -1, 1.5, 2**40, "\n", [], {}, [1], {"a": 1}, True, ""]
    for new in [KeyError, *junk]:
        facts = yaml.safe_load((FOLDER / "sm_90.yaml").read_text(encoding="utf-8"))
        holder = facts
        for key in place[:-1]:
            holder = holder[key]
        key, last = place[-1], isinstance(place[-1], int) or "flops" in str(place[-2:-1])
        if new is KeyError:
            if last or key in OPTIONAL:
                continue
            del holder[key]
        elif new is True and key == "cp_async":
            continue
        else:
            holder[key] = new
        said = refused(tmp_path / "sm_90.yaml", yaml.safe_dump(facts, sort_keys=False))
        assert str(key) in said or last


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", " the file is no table of keys; it has gpus, "),
        ("- 1\n", "1: the file is no table of keys; it has gpus, "),
        ("gpus: [\n", " no YAML: while parsing a flow node"),
        ("\tgpus: 1\n", " no YAML: while scanning for the next token"),
        ("gpus: !!python/object:os.system {}\n", " no YAML: could not determine a constructor"),
        ("? [1]\n: 2\n", " no YAML: "),
    ],
)
def test_what_is_no_table_of_keys(text: str, said: str, tmp_path: Path) -> None:
    assert refused(tmp_path / "sm_86.yaml", text).startswith(said)


@pytest.fixture
def own_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of facts that a test may change."""

    def forget() -> None:
        for cached in (known_architectures, known_targets, load_arch, arch_module._facts):
            cached.cache_clear()

    folder = tmp_path / "configs" / "arch"
    folder.mkdir(parents=True)
    for path in FOLDER.glob("*.yaml"):
        (folder / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(arch_module, "data_folder", lambda name: tmp_path / name)
    forget()
    yield folder
    monkeypatch.undo()
    forget()


def test_a_new_architecture_wants_a_file_and_is_told_what_verify_wants(
    own_facts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own_facts / "sm_79.yaml").write_text(TEXT, encoding="utf-8")
    words = ("--m=64", "--n=48", "--k=32", "--arch=sm_79", "--emit=cu")
    assert run(list(words)) == 0
    assert "mma_m16n8k16" in capsys.readouterr().out
    with pytest.raises(UnknownArithmeticError) as caught:
        arithmetic("sm_79")
    assert caught.value.exit_code == 2
    assert str(caught.value).endswith(
        "; how its tensor cores sum is a row of ARITHMETIC in"
        " deepgemm_codegen/emulator/generations.py; add it"
    )


def test_a_file_of_its_own_serves_an_architecture_before_its_family_does(own_facts: Path) -> None:
    assert load_arch("sm_103").name == "sm_100"
    load_arch.cache_clear()
    arch_module._facts.cache_clear()
    (own_facts / "sm_103.yaml").write_text(TEXT, encoding="utf-8")
    assert load_arch("sm_103").name == "sm_103"
    assert "nearest family" not in load_arch("sm_103").note


def test_a_file_with_a_mistake_is_the_users_to_mend(
    own_facts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own_facts / "sm_79.yaml").write_text(TEXT.replace("sms: 82", "sms: 0"), encoding="utf-8")
    assert run(["--m=64", "--n=48", "--k=32", "--arch=sm_79"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: configs/arch/sm_79.yaml:5: gpus[0].sms = 0: give ")


def test_a_file_has_an_architectures_name(own_facts: Path) -> None:
    (own_facts / "sm_88a.yaml").write_text(TEXT, encoding="utf-8")
    with pytest.raises(InputError, match=re.escape("configs/arch/sm_88a.yaml: no architecture's")):
        known_architectures()


def test_an_unknown_architecture_names_the_numerically_nearest() -> None:
    for given, close in (("sm_70", "sm_75"), ("sm_61", "sm_75"), ("sm_99", "sm_100")):
        with pytest.raises(InputError, match=rf"\(the nearest is '{close}'\)$"):
            load_arch(given)


@pytest.mark.parametrize(
    ("arch", "gpu", "dtype", "tflops"),
    [
        ("sm_89", "L4", "fp16", 121),
        ("sm_89", "L40S", "e4m3", 733),
        ("sm_89", "RTX 4090", "fp16", 165),
        ("sm_86", "A10", "bf16", 125),
        ("sm_86", "A40", "fp16", 149.7),
        ("sm_86", "RTX 3090", "fp16", 71),
        ("sm_86", "A10", "int8", 250),
    ],
)
def test_a_gpu_computes_at_its_own_rate(arch: str, gpu: str, dtype: str, tflops: float) -> None:
    """As the data sheets have it, dense, sums in fp32 (of int8 in int32)."""
    facts = load_arch(arch, gpu)
    rate = facts.mma_rate(dtype) * facts.gpu.sms * facts.gpu.clock_mhz / 1e6
    assert rate == pytest.approx(tflops, rel=0.015)
