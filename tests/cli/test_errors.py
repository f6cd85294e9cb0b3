"""Everything a user may get wrong: an exact message, an exit code, nothing on stdout."""

from __future__ import annotations

import os
from pathlib import Path
from shutil import copytree
from typing import NoReturn

import pytest

from deepgemm_codegen.arch import known_targets
from deepgemm_codegen.cli import emit
from deepgemm_codegen.epilogue import STEPS
from deepgemm_codegen.numbers import MAX_DIMENSION
from deepgemm_codegen.render import rendering as render
from deepgemm_codegen.resources import data_folder
from tests.cli.conftest import SMALL, Cli, process

KNOWN = ", ".join(known_targets())

BAD_VALUES = [
    (("--m=0",), "m = 0: too small; the smallest is 1"),
    (("--m", "-5"), "m = -5: too small; the smallest is 1"),
    (("--n=0",), "n = 0: too small; the smallest is 1"),
    (("--k=-1",), "k = -1: too small; the smallest is 0"),
    (("--m=2147483648",), f"m = 2147483648: too large; the largest is {MAX_DIMENSION}"),
    (
        (f"--m={'9' * 5000}",),
        f"m = 99999999... (5000 digits): too large; the largest is {MAX_DIMENSION}",
    ),
    (("--m=1.5",), "m = 1.5: not a whole number; give a whole number, dynamic, or dynamic:MAX"),
    (("--m=1e3",), "m = 1e3: a whole number is wanted; write 1000"),
    (("--m=0x40",), "m = 0x40: write it in decimal: 64"),
    (("--stages=3.0",), "stages = 3.0: a whole number is wanted; write 3"),
    (("--batch=1_000",), "batch = 1_000: write 1000, with nothing between the digits"),
    (("--m=",), "--m has no value; give it one, or leave it out"),
    (("--m", "--n=64"), "--m has no value; give it one, or leave it out"),
    (("--arch=",), "--arch has no value; give it one, or leave it out"),
    (("--stages", " "), "--stages has no value; give it one, or leave it out"),
    (("--m=٣",), "m = ٣: not a whole number; give a whole number, dynamic, or dynamic:MAX"),
    (("--m=dynamic:0",), "m = dynamic:0: too small; the smallest maximum is 1"),
    (("--batch=0",), "batch = 0: too small; the smallest is 1"),
    (("--sms=-1",), "sms = -1: too small; the smallest is 0"),
    (("--stages=0",), "stages = 0: too small; the smallest is 1"),
    (("--tile-m=x",), "tile_m = x: not a whole number; give a whole number"),
    (("--layout=nx",), "layout = nx: unknown; A's letter then B's: nn, nt, tn or tt"),
    (
        ("--layout=NT",),
        "layout = NT: unknown; A's letter then B's: nn, nt, tn or tt (did you mean 'nt'?)",
    ),
    (
        ("--batch=dynamic:4",),
        (
            "batch = dynamic:4: the number of products is fixed when the kernel is written, m, n"
            " and k alone may be dynamic; give a whole number"
        ),
    ),
    (
        ("--epilogue=bias,",),
        "epilogue = bias,: a comma with no step beside it; leave the comma out",
    ),
    (
        ("--epilogue=quantize:int8:scale=1e-300",),
        "epilogue step 'quantize': scale = 1e-300: below fp32, whose smallest is 1.4012985e-45",
    ),
    (
        ("--dtype=int8", "--dtype-d=int32", "--epilogue=bias"),
        (
            "epilogue = bias: a D of int32, the default, is the sums as they are; give dtype_d"
            " fp32, fp16 or bf16, or leave epilogue out"
        ),
    ),
    (("--layout-d=x",), "layout_d = x: unknown; n (row-major) or t"),
    (("--align-a=3",), "align_a = 3: give a power of two from 2 to 4096 (bytes)"),
    (("--align-a=0",), "align_a = 0: give a power of two from 2 to 4096 (bytes)"),
    (("--align-a=-4",), "align_a = -4: give a power of two from 2 to 4096 (bytes)"),
    (("--align-a=1",), "align_a = 1: give a power of two from 2 to 4096 (bytes)"),
    (
        ("--dtype=fp17",),
        (
            "unknown dtype 'fp17'; known: fp16, bf16, fp32, e4m3, e5m2, int8, uint8, int32"
            " (did you mean 'fp16'?)"
        ),
    ),
    (("--dtype=fp8",), "dtype 'fp8' is more than one type; give e4m3 or e5m2"),
    (
        ("--dtype=int4",),
        (
            "dtype 'int4' has no kernels yet (tensor cores multiply it from sm_75 on); known: fp16,"
            " bf16, fp32, e4m3, e5m2, int8, uint8, int32"
        ),
    ),
    (
        ("--dtype=int32",),
        (
            "dtype_a = int32: no kernel family multiplies int32 operands; give one of fp16, bf16,"
            " fp32, e4m3, e5m2, int8, uint8"
        ),
    ),
    (
        ("--dtype-a=fp16", "--dtype-b=bf16"),
        (
            "dtype_a = fp16, dtype_b = bf16: the tensor cores multiply operands of"
            " one type, e4m3 with e5m2, or int8 with uint8; give both the same"
        ),
    ),
    (
        ("--epilogue=bais",),
        f"unknown epilogue step 'bais'; known: {', '.join(STEPS)} (did you mean 'bias'?)",
    ),
    (("--ldc=64",), "ldc = 64: the kernel has no C; give dtype_c or leave ldc out"),
    (
        ("--arch=sm_999",),
        f"arch = sm_999: no facts for sm_999; known: {KNOWN} (the nearest is 'sm_120')",
    ),
    (("--arch=volta",), f"arch = volta: not an architecture; known: {KNOWN}"),
    (
        ("--gpu=A1000",),
        (
            "gpu = A1000: not a known sm_80 GPU; known: A100 SXM 80 GB, A100 PCIe 40 GB, A30; or"
            " give --sms=COUNT"
        ),
    ),
    (
        ("--gpu=h100",),
        (
            "gpu = h100: no sm_80 GPU; give arch sm_90 or sm_90a, or one of A100 SXM 80 GB, A100"
            " PCIe 40 GB, A30"
        ),
    ),
    (
        ("--gpu=A10",),
        (
            "gpu = A10: no sm_80 GPU; give arch sm_86, or one of A100 SXM 80 GB, A100 PCIe 40 GB,"
            " A30"
        ),
    ),
    (
        ("--epilogue=bias relu",),
        "epilogue = bias relu: a comma stands between steps; give bias,relu",
    ),
    (
        ("--label=two\nlines",),
        (
            "label = 'two\\nlines': holds a control character or a byte that is"
            " not UTF-8; give plain"
            " text"
        ),
    ),
]


@pytest.mark.parametrize(("words", "message"), BAD_VALUES, ids=[b[0][0][:20] for b in BAD_VALUES])
def test_a_bad_value(cli: Cli, words: tuple[str, ...], message: str) -> None:
    result = cli(*SMALL, *words)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: {message}\n"


BAD_USAGE = [
    (
        ("--m=8", "--n=8", "--k=8", "--epilogue=bias", "--epilogue=relu"),
        "--epilogue is given twice; give it once, with all steps: bias,relu",
    ),
    ((), "nothing is asked for; give --m, --n and --k, or a command"),
    (("verify", "-q"), "nothing is asked for; give kernel files, or --m, --n and --k"),
    (("explain",), "nothing is asked for; give kernel files, or --m, --n and --k"),
    (("--mm=4",), "no such option --mm (did you mean '--m'?)"),
    (("--tile-mm=4",), "no such option --tile-mm (did you mean '--tile-m'?)"),
    (("bench", *SMALL, "--on=gpu"), "no such option --on; verify has it"),
    (("bench", "--verify"), "no such option --verify; deepgemm_codegen without a command has it"),
    ((*SMALL, "--json"), "no such option --json; explain, verify, bench, generate"),
    (("-m", "4"), "no such option -m (did you mean '--m'?)"),
    (("--emit=px", *SMALL), "invalid value for '--emit': 'px' is not one of 'ptx', 'cu', 'cubin',"),
    (("--m",), "option '--m' requires an argument"),
    (("generat",), "no such command 'generat' (did you mean 'generate'?); the commands are "),
    (("zzz",), "no such command 'zzz'; the commands are "),
    (
        ("--m=4", "doctor"),
        "--m stands before the command 'doctor'; give it after: deepgemm_codegen doctor --m ...",
    ),
    (("-q", "-v", *SMALL), "-q and -v exclude each other; give one of them"),
    (("generate",), "missing argument 'FILE...'"),
    (("generate", "x.yaml"), "missing option '-o' / '--out'"),
    (
        ("generate", "x.yaml", "-o", "x", "--jobs=0"),
        "invalid value for '--jobs': 0: give a whole number from 1 to 256",
    ),
    (("cache",), "missing argument 'info|clear'"),
    (("cache", "cler"), "invalid value for 'info|clear': 'cler' is not one of 'info', 'clear'"),
]


@pytest.mark.parametrize(
    ("words", "message"), BAD_USAGE, ids=[" ".join(b[0])[:25] for b in BAD_USAGE]
)
def test_bad_usage(cli: Cli, words: tuple[str, ...], message: str) -> None:
    result = cli(*words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {message}")


@pytest.mark.parametrize("missing", ["m", "n", "k"])
def test_a_missing_dimension(cli: Cli, missing: str) -> None:
    result = cli(*(f"--{name}=64" for name in "mnk" if name != missing))
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        f"error: {missing} is missing; give --{missing}=SIZE or --{missing}=dynamic\n"
    )


def test_bytes_that_are_not_utf8() -> None:
    result = process(*SMALL, os.fsdecode(b"--label=\xff"), "--emit=cu")
    assert (result.code, result.out) == (2, "")
    assert "a byte that is not UTF-8" in result.err


REFUSED = """\
defaults: {m: 64, n: 64, k: 64, arch: sm_80, stages: 99}
kernels:
  - {name: own, stages: 98}
  - name: rows
    stages: 2
    sweep: {split_k: [2, 999]}
  - {name: inherited}
"""


@pytest.mark.parametrize("command", [("explain",), ("verify",), ("generate", "-o", "out")])
def test_what_the_tree_refuses_stands_at_the_value(
    cli: Cli, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where the value is one of ``defaults``, at the kernel, which the defaults do not name."""
    monkeypatch.chdir(tmp_path)
    Path("k.yaml").write_text(REFUSED, encoding="utf-8")
    result = cli(*command, "k.yaml", "-q")
    assert result.code == 2
    assert sorted(line for line in result.err.splitlines() if line.startswith("error")) == [
        "error: k.yaml:3:25: stages = 98: too large; the nearest legal is 8, or leave stages out",
        (
            "error: k.yaml:6:26: split_k = 999: too large; the nearest legal is 256, or leave"
            " split_k out"
        ),
        "error: k.yaml:7: stages = 99: too large; the nearest legal is 8, or leave stages out",
    ]


def test_what_a_flag_brings_in_is_no_fault_of_the_file(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "kernels:\n  - {m: 64, n: 64, k: 64, arch: sm_80, stages: 2}\n"
    Path("k.yaml").write_text(text, encoding="utf-8")
    result = cli("explain", "k.yaml", "--stages=99")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "error: k.yaml:2: stages = 99: too large; the nearest legal is 8, or leave stages out\n"
    )


def test_what_a_user_typed_cannot_drive_the_terminal(cli: Cli) -> None:
    result = cli(*SMALL, "--arch=\x1b[31msm_80")
    assert result.code == 2
    assert "\x1b" not in result.err
    assert "\\x1b[31msm_80" in result.err


def test_r06_the_suffix_of_sm_90a_opens_wgmma(cli: Cli) -> None:
    shape = ("--m=1024", "--n=1024", "--k=1024", "--layout=nt", "--emit=cu")
    fast, plain = cli(*shape, "--arch=sm_90a"), cli(*shape, "--arch=sm_90")
    assert (fast.code, fast.err) == (0, "")
    assert "[D01] family: wgmma" in fast.out
    assert "[D01] family: mma_sync" in plain.out
    assert plain.err == "note: sm_90 means mma.sync code; sm_90a opens wgmma\n"


@pytest.mark.parametrize("name", ["sm_90f", "sm_100a", "sm_120a", "sm_100f"])
def test_r06_a_suffix_is_parsed(cli: Cli, name: str) -> None:
    result = cli(*SMALL, f"--arch={name}", "--emit=cu")
    assert result.code == 0
    assert f"arch={name}" in result.out
    plain = name.rstrip("af")
    assert result.err.endswith(f"the code is plain {plain}\n")


@pytest.mark.parametrize("name", ["sm_100", "sm_120"])
def test_r07_numbers_compare_as_numbers(cli: Cli, name: str) -> None:
    assert cli(*SMALL, f"--arch={name}", "--emit=cu", "-q").code == 0


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("12.0", "sm_120"),
        ("120", "sm_120"),
        ("sm_120", "sm_120"),
        ("8.9", "sm_89"),
        ("86", "sm_86"),
        (" SM_80 ", "sm_80"),
        ("compute_80", "sm_80"),
    ],
)
def test_r09_spellings_of_an_architecture(cli: Cli, given: str, meant: str) -> None:
    result = cli(*SMALL, f"--arch={given}", "--emit=cu")
    assert result.code == 0
    assert result.out == cli(*SMALL, f"--arch={meant}", "--emit=cu").out


def test_r11_an_unknown_target_is_refused_and_a_sibling_is_mapped(cli: Cli) -> None:
    assert cli(*SMALL, "--arch=sm_999").code == 2
    sibling = cli(*SMALL, "--arch=sm_121")
    assert sibling.code == 0
    assert ".target sm_120" in sibling.out


def test_n18_without_a_gpu_and_an_arch_the_target_is_the_documented_one(cli: Cli) -> None:
    assert "target architecture, such as sm_80  [default: sm_80]" in cli("--help").out
    assert ".target sm_80" in cli(*SMALL).out


def test_y06_an_undefined_name_in_a_template_stops_the_rendering(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copytree(data_folder("templates"), tmp_path / "templates")
    template = tmp_path / "templates" / "kernels" / "mma_sync.cu.j2"
    template.write_text(template.read_text() + "{{ plan.no_such_thing }}\n")
    monkeypatch.setattr(render, "data_folder", lambda name: tmp_path / name)
    render.environment.cache_clear()
    out = tmp_path / "out.cu"
    result = cli(*SMALL, "--emit=cu", "-o", str(out))
    render.environment.cache_clear()
    assert (result.code, result.out) == (70, "")
    assert "no_such_thing" in result.err
    assert not out.exists()


def test_an_unexpected_exception_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> NoReturn:
        raise ZeroDivisionError("first\nsecond")

    monkeypatch.setattr(emit, "decide", broken)
    result = cli(*SMALL)
    assert (result.code, result.out) == (70, "")
    assert result.err == (
        "internal error: ZeroDivisionError: first second; please report it with the command that"
        " you gave\n"
    )
    monkeypatch.setenv("DEEPGEMM_ENABLE_DEBUG", "1")
    assert "Traceback" in cli(*SMALL).err


def test_ctrl_c(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(emit, "decide", interrupted)
    result = cli(*SMALL)
    assert (result.code, result.out, result.err) == (130, "", "interrupted\n")


def test_out_of_memory(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> NoReturn:
        raise MemoryError

    monkeypatch.setattr(emit, "decide", exhausted)
    result = cli(*SMALL)
    assert (result.code, result.err) == (3, "error: the system refuses: out of memory\n")


def test_a_bad_output_path(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, cause in (
        (tmp_path, "it is a folder"),
        (tmp_path / "none" / "x", "its folder does not exist"),
        (tmp_path / "file" / "x", "a part of the path is a file, not a folder"),
    ):
        result = cli(*SMALL, "--emit=cu", "-o", str(path))
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith(f"error: cannot write '{path}': {cause}; ")


def test_an_empty_output_path(cli: Cli) -> None:
    result = cli(*SMALL, "--emit=cu", "-o", "")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "error: cannot write '': the name is not valid on this file system; choose another name\n"
    )


def test_a_read_only_folder(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o500)
    if os.geteuid() == 0:  # modes do not bind root; the kernel's own folder does
        folder = Path("/sys")
        if not folder.is_dir():
            pytest.skip("root, and no /sys")
    result = cli(*SMALL, "--emit=cu", "-o", str(folder / "x.cu"))
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith(f"error: cannot write '{folder / 'x.cu'}': ")
