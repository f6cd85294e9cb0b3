from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import (
    GlobalBuffer,
    Kernel,
    Launch,
    LaunchError,
    PointerTable,
    parse,
    run,
)
from tests.emulator.support import entry, execute, launch

Array = np.ndarray[Any, np.dtype[Any]]

_COPY = """
    mov.u32 %r1, %tid.x;
    ld.param.u64 %d1, [k_param_0];
    ld.param.u64 %d2, [k_param_1];
    mad.wide.u32 %d3, %r1, {step}, %d1;
    mad.wide.u32 %d4, %r1, {step}, %d2;
    ld.global{load} [%d3+{offset}];
    st.global{store} [%d4], {value};
"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("kind", ["u8", "u16", "u32", "f32", "b64", "u64"])
@pytest.mark.parametrize("hint", ["", ".nc", ".L1::no_allocate.L2::128B"])
def test_every_width_moves_its_bytes(kind: str, count: int, hint: str) -> None:
    bits = int(kind[1:])
    if bits * count > 128:
        return
    bank = {8: "%h", 16: "%h", 32: "%r", 64: "%d"}[bits]
    registers = [f"{bank}{10 + i}" for i in range(count)]
    operand = registers[0] if count == 1 else "{" + ", ".join(registers) + "}"
    vector = "" if count == 1 else f".v{count}"
    step = bits // 8 * count
    body = _COPY.format(
        step=step, offset=0, load=f"{hint}{vector}.{kind} {operand},", store=f"{vector}.{kind}",
        value=operand,
    )  # fmt: skip
    source = np.random.default_rng(0).integers(0, 256, 32 * step).astype(np.uint8)
    out = np.zeros_like(source)
    report = launch(
        entry(body, 2), [GlobalBuffer("in", source), GlobalBuffer("out", out, writable=True)]
    )
    assert report.findings == ()
    np.testing.assert_array_equal(out, source)


def test_narrow_loads_extend_into_wider_registers() -> None:
    a = np.array([0x7F, 0x80, 0xFF, 0], np.uint8)
    body = """
        ld.param.u64 %d10, [k_param_0];
        cvt.u64.u32 %d11, %r60;
        add.s64 %d10, %d10, %d11;
        ld.global.s8 %r40, [%d10];
    """
    np.testing.assert_array_equal(execute(body, [a], "%r40", np.int32), [127, -128, -1, 0])
    body = body.replace(".s8", ".u8")
    np.testing.assert_array_equal(execute(body, [a], "%r40", np.int32), [127, 128, 255, 0])


def _one_thread(offset: int, buffers: list[GlobalBuffer], *, store: bool = False) -> Any:
    access = (
        "st.global.v2.u32 [%d1], {%r1, %r1};" if store else "ld.global.v2.u32 {%r1, %r2}, [%d1];"
    )
    body = f"""
        mov.u32 %r1, %tid.x;
        setp.ne.u32 %p1, %r1, 3;
        @%p1 ret;
        ld.param.u64 %d1, [k_param_0];
        add.s64 %d1, %d1, {offset};
        {access}
    """
    return launch(entry(body, len(buffers)), buffers)


@pytest.mark.parametrize("offset", [64, 60, -8, 1 << 20, -(1 << 33), 1 << 41])
@pytest.mark.parametrize("store", [False, True])
def test_accesses_outside_are_told_and_do_nothing(offset: int, store: bool) -> None:
    data = np.zeros(16, np.uint32)
    other = np.zeros(16, np.uint32)
    buffers = [GlobalBuffer("x", data, writable=True), GlobalBuffer("y", other, writable=True)]
    report = _one_thread(offset, buffers, store=store)
    kind = "out-of-bounds-write" if store else "out-of-bounds-read"
    kind = "misaligned" if offset == 60 else kind
    assert [f.kind for f in report.findings] == [kind]
    finding = report.findings[0]
    assert finding.actor.thread == 3
    assert finding.place.line > 0
    assert not data.any()
    assert not other.any()


def test_the_message_names_buffer_and_offset() -> None:
    report = _one_thread(64, [GlobalBuffer("x", np.zeros(16, np.uint32))])
    assert report.findings[0].message == (
        "global read of 8 bytes at offset 64 of buffer 'x' (64 bytes)"
    )


def test_writing_a_read_only_buffer() -> None:
    data = np.ones(16, np.uint32)
    report = _one_thread(0, [GlobalBuffer("x", data)], store=True)
    assert [f.kind for f in report.findings] == ["read-only-write"]
    assert data.all()


def test_misaligned_bases_work_for_what_is_aligned() -> None:
    data = np.arange(34, dtype=np.uint16)
    out = np.zeros(32, np.uint16)
    body = _COPY.format(step=2, offset=2, load=".u16 %h10,", store=".u16", value="%h10")
    buffers = [
        GlobalBuffer("x", data, misalign=2),
        GlobalBuffer("y", out, writable=True, misalign=6),
    ]
    assert launch(entry(body, 2), buffers).findings == ()
    np.testing.assert_array_equal(out, data[1:33])
    body = _COPY.format(step=2, offset=0, load=".u32 %r10,", store=".u16", value="%h10")
    report = launch(entry(body, 2), buffers)
    assert [f.kind for f in report.findings] == ["misaligned"]
    assert report.findings[0].count == 16


def test_unaligned_views_move_whole_words() -> None:
    # Address 4 modulo 16 in the launch, whatever the numpy array's own alignment.
    data = np.arange(40, dtype=np.uint32)
    out = np.zeros(40, np.uint32)
    body = _COPY.format(
        step=16, offset=12, load=".v4.u32 {%r10, %r11, %r12, %r13},", store=".v4.u32",
        value="{%r10, %r11, %r12, %r13}",
    )  # fmt: skip
    body = body.replace(
        "mad.wide.u32 %d3", "setp.gt.u32 %p1, %r1, 7; @%p1 ret;\nmad.wide.u32 %d3", 1
    )
    buffers = [GlobalBuffer("x", data, misalign=4), GlobalBuffer("y", out, writable=True)]
    assert launch(entry(body, 2), buffers).findings == ()
    np.testing.assert_array_equal(out[:32], data[3:35])


def test_pointers_into_a_buffer() -> None:
    data = np.arange(64, dtype=np.uint32)
    out = np.zeros(32, np.uint32)
    body = _COPY.format(step=4, offset=0, load=".u32 %r10,", store=".u32", value="%r10")
    x = GlobalBuffer("x", data)
    kernel = Kernel(parse(entry(body, 2)), "k")
    shape = Launch((1, 1, 1), (32, 1, 1), 0, [x.at(40), GlobalBuffer("y", out, writable=True)])
    assert run(kernel, shape).findings == ()
    np.testing.assert_array_equal(out, data[10:42])


class _Squares:
    """A terabyte-sized uint32 array whose element i is i * i."""

    nbytes = 1 << 39

    def __init__(self) -> None:
        self.calls = 0

    def read(self, offsets: Array, width: int) -> Array:
        self.calls += 1
        assert width % 4 == 0
        index = offsets[:, None] // 4 + np.arange(width // 4)
        return (index * index).astype(np.uint32).view(np.uint8)


def test_lazy_buffers_and_offsets_beyond_32_bits() -> None:
    lazy = _Squares()
    out = np.zeros((32, 2), np.uint32)
    start = (1 << 36) + 64
    body = _COPY.format(
        step=8, offset=0, load=".v2.u32 {%r10, %r11},", store=".v2.u32", value="{%r10, %r11}"
    ).replace("ld.param.u64 %d2", f"add.s64 %d1, %d1, {start};\nld.param.u64 %d2", 1)
    report = launch(
        entry(body, 2), [GlobalBuffer("x", lazy), GlobalBuffer("y", out, writable=True)]
    )
    assert report.findings == ()
    index = np.arange(64, dtype=np.int64) + start // 4
    np.testing.assert_array_equal(out.reshape(-1), (index * index).astype(np.uint32))
    assert lazy.calls == 1


def test_a_32_bit_offset_misses_every_buffer() -> None:
    body = """
        ld.param.u64 %d1, [k_param_0];
        cvt.u32.u64 %r1, %d1;
        add.u32 %r1, %r1, 4096;
        cvt.u64.u32 %d2, %r1;
        and.b64 %d3, %d1, 0xFFFFFFFF00000000;
        or.b64 %d2, %d2, %d3;
        ld.global.u32 %r2, [%d2];
    """
    report = launch(entry(body, 1), [GlobalBuffer("x", np.zeros(4096, np.uint32))])
    assert [f.kind for f in report.findings] == ["out-of-bounds-read"]


def test_a_lazy_buffer_cannot_be_written_and_strided_ones_are_refused() -> None:
    with pytest.raises(LaunchError, match="buffer 'x' is lazy, so it cannot be writable"):
        _one_thread(0, [GlobalBuffer("x", _Squares(), writable=True)])
    with pytest.raises(LaunchError, match="buffer 'x' is not C-contiguous"):
        _one_thread(0, [GlobalBuffer("x", np.zeros((4, 4), np.uint32).T)])


def test_reading_unwritten_bytes_is_told_until_they_are_written() -> None:
    data = np.zeros(16, np.uint32)
    unwritten = np.ones(64, bool)
    buffer = GlobalBuffer("w", data, writable=True, unwritten=unwritten)
    report = _one_thread(8, [buffer])
    assert [f.kind for f in report.findings] == ["poison-read"]
    assert report.findings[0].message == (
        "global read of 8 bytes at offset 8 of buffer 'w', which nobody wrote"
    )
    assert _one_thread(8, [buffer], store=True).findings == ()
    assert np.flatnonzero(~unwritten).tolist() == list(range(8, 16))
    assert _one_thread(8, [buffer]).findings == ()


def test_generic_addresses_reach_shared_local_and_global() -> None:
    a = np.arange(32, dtype=np.uint32)
    body = """
        .shared .align 4 .b8 box[128];
        .local .align 4 .b8 __local_depot0[8];
        mov.u64 %d10, box;
        cvta.shared.u64 %d11, %d10;
        mul.wide.u32 %d12, %r60, 4;
        add.s64 %d11, %d11, %d12;
        st.u32 [%d11], %r1;
        cvta.to.shared.u64 %d13, %d11;
        ld.shared.u32 %r2, [%d13];
        mov.u64 %d14, __local_depot0;
        cvta.local.u64 %d15, %d14;
        st.u32 [%d15+4], %r2;
        ld.local.u32 %r3, [%d14+4];
        ld.param.u64 %d16, [k_param_0];
        add.s64 %d16, %d16, %d12;
        ld.u32 %r4, [%d16];
        add.u32 %r40, %r3, %r4;
    """
    np.testing.assert_array_equal(execute(body, [a], "%r40", np.uint32), 2 * a)


def test_local_memory_out_of_bounds() -> None:
    body = ".local .align 4 .b8 d[8]; mov.u64 %d1, d; st.local.u32 [%d1+8], 1;"
    report = launch(entry(body), [])
    assert [f.kind for f in report.findings] == ["out-of-bounds-write"]


@pytest.mark.parametrize(
    ("address", "kind"),
    [(126, "misaligned"), (128, "out-of-bounds-read"), (-4, "out-of-bounds-read")],
)
def test_shared_bounds_and_alignment(address: int, kind: str) -> None:
    body = f".shared .align 4 .b8 box[128]; mov.u32 %r1, box; ld.shared.u32 %r2, [%r1+{address}];"
    report = launch(entry(body.replace("+-", "-")), [])
    assert kind in [f.kind for f in report.findings]
    assert report.findings[0].address == address


def test_dynamic_shared_memory_follows_the_static() -> None:
    out = np.zeros(32, np.uint32)
    body = """
        .shared .align 4 .b8 fixed[4];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, dynamic;
        mad.lo.u32 %r3, %r1, 4, %r2;
        st.shared.u32 [%r3], %r2;
        ld.shared.u32 %r4, [%r3];
        ld.param.u64 %d1, [k_param_0];
        mad.wide.u32 %d1, %r1, 4, %d1;
        st.global.u32 [%d1], %r4;
    """
    before = ".extern .shared .align 16 .b8 dynamic[];"
    buffer = GlobalBuffer("out", out, writable=True)
    assert launch(entry(body, 1, before), [buffer], shared=128).findings == ()
    assert (out == 16).all()
    report = launch(entry(body, 1, before), [buffer], shared=124)
    assert {f.kind for f in report.findings} == {"out-of-bounds-write", "out-of-bounds-read"}


def test_parameters_of_every_kind() -> None:
    ptx = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(
    .param .u64 .ptr .align 1 k_param_0,
    .param .u32 k_param_1,
    .param .f32 k_param_2,
    .param .align 8 .b8 k_param_3[16],
    .param .u8 k_param_4
)
{
    .reg .b32 %r<8>;
    .reg .b16 %h<4>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [k_param_0];
    ld.param.u32 %r1, [k_param_1];
    ld.param.b32 %r2, [k_param_2];
    ld.param.v2.u32 {%r3, %r4}, [k_param_3+8];
    ld.param.s8 %h1, [k_param_4];
    cvt.s32.s16 %r5, %h1;
    st.global.v4.u32 [%d1], {%r1, %r2, %r3, %r4};
    st.global.u32 [%d1+16], %r5;
    ret;
}
"""
    out = np.zeros(5, np.uint32)
    buffer = GlobalBuffer("out", out, writable=True)
    structure = bytes(range(16))
    kernel = Kernel(parse(ptx), "k")
    params: list[Any] = [buffer, -2, 1.5, structure, 0xFF]
    assert run(kernel, Launch((1, 1, 1), (1, 1, 1), 0, params)).findings == ()
    assert out.tolist() == [0xFFFFFFFE, 0x3FC00000, 0x0B0A0908, 0x0F0E0D0C, 0xFFFFFFFF]
    with pytest.raises(LaunchError, match="k takes 5 parameters, got 4"):
        run(kernel, Launch((1, 1, 1), (1, 1, 1), 0, params[:4]))
    params[3] = structure[:8]
    with pytest.raises(LaunchError, match="parameter k_param_3 has 16 bytes, got 8"):
        run(kernel, Launch((1, 1, 1), (1, 1, 1), 0, params))


_FOLLOW = """
    mov.u32 %r1, %tid.x;
    ld.param.u64 %d1, [k_param_0];
    ld.param.u64 %d2, [k_param_1];
    mad.wide.u32 %d3, %r1, 8, %d1;
    mad.wide.u32 %d4, %r1, 4, %d2;
    ld.global.u64 %d5, [%d3];
    ld.global.u32 %r2, [%d5];
    st.global.u32 [%d4], %r2;
"""


@pytest.mark.parametrize("threads", [3, 4])
def test_a_table_of_pointers_is_followed_and_has_an_end(threads: int) -> None:
    left = GlobalBuffer("left", np.arange(10, 20, dtype=np.uint32), misalign=4)
    right = GlobalBuffer("right", np.arange(50, 60, dtype=np.uint32))
    out = np.zeros(4, np.uint32)
    table = PointerTable("table", (right.at(8), left.at(0), right.at(36)))
    values: list[Any] = [table, GlobalBuffer("out", out, writable=True)]
    kernel = Kernel(parse(entry(_FOLLOW, 2)), "k", "sm_90")
    report = run(kernel, Launch((1, 1, 1), (threads, 1, 1), 0, values))
    np.testing.assert_array_equal(out[:3], [52, 10, 59])
    kinds = [finding.kind for finding in report.findings]
    assert kinds[:1] == ["out-of-bounds-read"] * (threads > 3)


class _Lazy:
    """A lazy array of zeros, whose answer may be of another shape or type."""

    nbytes = 256

    def __init__(self, shape: tuple[int, ...] | None = None, dtype: str = "uint8") -> None:
        self.shape, self.dtype = shape, dtype

    def read(self, offsets: Array, width: int) -> Array:
        return np.zeros(self.shape or (len(offsets), width), self.dtype)


_FOUR = np.zeros(4, np.uint32)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"data": [1, 2]}, "a list; pass a numpy array, or an object with nbytes and read"),
        ({"data": None}, "a NoneType; pass a numpy array, or an object with nbytes and read"),
        ({"data": np.array([None])}, "an array of Python objects; pass one of numbers"),
        ({"data": _Lazy(), "writable": True}, "lazy, so it cannot be writable"),
        (
            {"data": np.frombuffer(bytes(16), np.uint32), "writable": True},
            "read-only, and the kernel may write it; pass a copy, or writable=False",
        ),
        ({"misalign": -1}, "misaligned by -1; give whole bytes from 0 to 4095"),
        ({"misalign": 4096}, "misaligned by 4096; give whole bytes from 0 to 4095"),
        ({"misalign": 1.5}, "misaligned by 1.5; give whole bytes from 0 to 4095"),
        (
            {"unwritten": np.ones(4, bool)},
            "marked unwritten otherwise than by 16 booleans, one a byte",
        ),
        (
            {"unwritten": np.ones(16, np.uint8)},
            "marked unwritten otherwise than by 16 booleans, one a byte",
        ),
    ],
)
def test_a_buffer_that_is_none(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        GlobalBuffer("x", **{"data": _FOUR, **fields})
    assert str(caught.value) == f"buffer 'x' is {message}"


def test_pointers_that_are_none() -> None:
    buffer = GlobalBuffer("x", _FOUR)
    with pytest.raises(LaunchError, match=r"^a pointer 1\.5 bytes into 'x'$"):
        buffer.at(1.5)  # type: ignore[arg-type]
    with pytest.raises(LaunchError, match=r"^table 't' holds 7; give buffer\.at\(offset\)$"):
        PointerTable("t", (buffer.at(0), 7))  # type: ignore[arg-type]


@pytest.mark.parametrize("lazy", [_Lazy((3,)), _Lazy(None, "float32"), _Lazy((4, 32))])
def test_a_lazy_array_must_give_what_is_asked_for(lazy: _Lazy) -> None:
    body = "ld.param.u64 %d1, [k_param_0]; ld.global.u32 %r1, [%d1];"
    with pytest.raises(LaunchError) as caught:
        launch(entry(body, 1), [GlobalBuffer("x", lazy)])
    assert str(caught.value).startswith("buffer 'x': its read gave ")
    assert str(caught.value).endswith("where uint8 (32, 4) was asked for")
