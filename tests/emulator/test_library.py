"""The emulator as a library: the examples of its docstring and of its page run as they stand."""

from __future__ import annotations

import doctest
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from deepgemm_codegen import emulator
from deepgemm_codegen.emulator import GlobalBuffer, Kernel, Launch, LaunchError, parse, run
from tests.emulator.programs import ptx
from tests.emulator.support import entry

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "emulator.md"


def test_the_docstring() -> None:
    failed, attempted = doctest.testmod(emulator)
    assert (failed, attempted > 5) == (0, True)


def test_the_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    found = re.findall(
        r"<!-- runs, and prints (.*?) -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    assert len(found) == 1
    for printed, text in found:
        exec(compile(text, str(PAGE), "exec"), {})
        assert capsys.readouterr().out.strip() == printed


def test_every_family_of_instructions_is_on_the_page_s_list_of_files() -> None:
    # The page tells a reader which file to copy; it has to be there, and small.
    named = re.findall(r"`instructions/(\w+\.py)`", PAGE.read_text())
    assert named
    folder = Path(emulator.__file__).parent / "instructions"
    for name in named:
        assert (folder / name).read_text().count("\n") < 120


def test_arrays_are_buffers() -> None:
    numbers, total = np.arange(1000, dtype=np.int32), np.zeros(1, np.int32)
    numbers.flags.writeable = False
    launch = Launch((4, 1, 1), (128, 1, 1), 0, [numbers, 1000, total])
    assert run(ptx("reduction"), launch).findings == ()
    assert total[0] == 499500
    # One that may not be written is read-only to the kernel, too.
    total.flags.writeable = False
    assert {f.kind for f in run(ptx("reduction"), launch).findings} == {"read-only-write"}
    with pytest.raises(LaunchError, match="buffer 'reduction_param_0' is not C-contiguous"):
        run(ptx("reduction"), Launch((1, 1, 1), (32, 1, 1), 0, [numbers[::2], 4, total]))


def test_a_text_with_no_kernel_or_two() -> None:
    text = entry("ret;")
    two = text + text.split(".address_size 64\n")[1].replace("entry k(", "entry other(")
    for given, found in ((two, "k, other"), (text.replace(".entry", ".func"), "none")):
        with pytest.raises(LaunchError) as caught:
            run(given, Launch((1, 1, 1), (32, 1, 1)))
        assert str(caught.value) == f"a text with one kernel was expected; it has: {found}"


def test_a_buffer_given_twice_is_one() -> None:
    data = np.zeros(4, np.uint32)
    body = """
        ld.param.u64 %d1, [k_param_0];
        ld.param.u64 %d2, [k_param_1];
        sub.u64 %d3, %d1, %d2;
        cvt.u32.u64 %r1, %d3;
        st.global.u32 [%d1], %r1;
    """
    buffer = GlobalBuffer("b", data, writable=True)
    for pair in ([buffer, buffer], [data, data]):
        data[0] = 7
        run(entry(body, 2), Launch((1, 1, 1), (1, 1, 1), 0, pair))
        assert data[0] == 0


def test_threads_may_share_a_kernel() -> None:
    """They ran in each other's registers, and nothing told."""
    body = """
        ld.param.u64 %d1, [k_param_0];
        ld.param.u64 %d2, [k_param_1];
        cvt.u32.u64 %r1, %d2;
        mov.u32 %r2, 0;
        mov.u32 %r3, 0;
    LOOP:
        add.u32 %r3, %r3, %r1;
        add.u32 %r2, %r2, 1;
        setp.lt.u32 %p1, %r2, 200;
        @%p1 bra LOOP;
        st.global.u32 [%d1], %r3;
    """
    kernel = Kernel(parse(entry(body, 2)), "k")

    def sums(number: int) -> set[int]:
        found = set()
        for _ in range(8):
            data = np.zeros(1, np.uint32)
            report = run(kernel, Launch((1, 1, 1), (1, 1, 1), 0, [data, number]))
            assert report.findings == ()
            found.add(int(data[0]))
        return found

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(sums, range(6))) == [{200 * number} for number in range(6)]
    finally:
        sys.setswitchinterval(interval)
