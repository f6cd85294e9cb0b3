"""Forms of matrix instructions: ldmatrix, stmatrix, mma, wgmma."""

from __future__ import annotations

from tests.emulator.forms.form import Form

__all__ = ["forms"]

_BOX = ".shared .align 1024 .b8 box[16384];"
_PARTS = {"f16": 2, "bf16": 2, "tf32": 1, "e4m3": 4, "e5m2": 4, "s8": 4, "u8": 4}


def forms() -> list[Form]:
    """All of them."""
    return [*_moves(), *_products(), *_warpgroups()]


def _moves() -> list[Form]:
    """Each warp has 2 KB of shared memory; rows come in an order of their own."""
    found = []
    fill = (
        "mov.u32 %r10, box; mad.lo.u32 %r11, %r0, 16, %r10; "
        "st.shared.v4.b32 [%r11], {$i0, $i1, $i2, $i3}; bar.sync 0; "
    )
    row = (
        "and.b32 %r12, %r0, 31; mad.lo.u32 %r13, %r12, 5, 3; and.b32 %r13, %r13, 31; "
        "shr.u32 %r14, %r0, 5; mad.lo.u32 %r15, %r14, 512, %r10; "
        "mad.lo.u32 %r16, %r13, 16, %r15; "
    )
    for count in (1, 2, 4):
        for turned in ("", ".trans"):
            names = ", ".join(f"$o{i}" for i in range(count))
            found.append(
                Form(
                    f"ldmatrix.x{count}{turned}",
                    f"{fill}{row}ldmatrix.sync.aligned.m8n8.x{count}{turned}.shared.b16 "
                    f"{{{names}}}, [%r16];",
                    ("u32",) * 4,
                    ("u32",) * count,
                    threads=256,
                    before=_BOX,
                )
            )
            sources = ", ".join(f"$i{i}" for i in range(count))
            read = "ld.shared.v4.b32 {$o0, $o1, $o2, $o3}, [%r11];"
            found.append(
                Form(
                    f"stmatrix.x{count}{turned}",
                    f"{fill}{row}stmatrix.sync.aligned.m8n8.x{count}{turned}.shared.b16 [%r16], "
                    f"{{{sources}}}; bar.sync 0; {read}",
                    ("u32",) * 4,
                    ("u32",) * 4,
                    threads=256,
                    before=_BOX,
                )
            )
    return found


def _element(kind: str, bits: int = 32) -> str:
    """Kind of a register full of operand elements."""
    if kind in ("s8", "u8"):
        return f"u{bits}"
    count = _PARTS[kind] * bits // 32
    return f"{kind}x{count}:halves" if count > 1 else f"{kind}:halves"


def _sum(kind: str) -> str:
    return {"f32": "f32:halves", "f16": "f16x2:halves", "s32": "u32"}[kind]


def _products() -> list[Form]:
    shapes = [(f"m16n8k{k}", a, b, d, "")
              for ks, a, b, ds in (
                  ((8, 16), "f16", "f16", ("f32", "f16")), ((8, 16), "bf16", "bf16", ("f32",)),
                  ((4, 8), "tf32", "tf32", ("f32",)), ((16, 32), "e4m3", "e4m3", ("f32", "f16")),
                  ((16, 32), "e5m2", "e5m2", ("f32", "f16")), ((32,), "e4m3", "e5m2", ("f32",)),
                  ((32,), "e5m2", "e4m3", ("f16",)), ((16, 32), "s8", "s8", ("s32",)),
                  ((32,), "u8", "s8", ("s32",)), ((32,), "s8", "u8", ("s32",)),
                  ((16, 32), "u8", "u8", ("s32",)))
              for k in ks for d in ds]  # fmt: skip
    shapes += [("m16n8k32", "s8", "s8", "s32", ".satfinite")]
    shapes += [("m8n8k16", a, b, "s32", "") for a in ("s8", "u8") for b in ("s8", "u8")]
    found = []
    for shape, a, b, d, words in shapes:
        m, k = int(shape[1 : shape.index("n")]), int(shape.rpartition("k")[2])
        count = k // (4 * _PARTS[a])
        counts = (m // 8 * count, count, m // 4 // (2 if d == "f16" else 1))
        inputs: list[str] = []
        fragments = []
        for number, kind in zip(counts, (_element(a), _element(b), _sum(d)), strict=True):
            names = [f"$i{len(inputs) + i}" for i in range(number)]
            fragments.append("{" + ", ".join(names) + "}")
            inputs += [kind] * number
        out = "{" + ", ".join(f"$o{i}" for i in range(counts[2])) + "}"
        opcode = f"mma.sync.aligned.{shape}.row.col{words}.{d}.{a}.{b}.{d}"
        found.append(
            Form(
                opcode,
                f"{opcode} {out}, {', '.join(fragments)};",
                tuple(inputs),
                (_sum(d).partition(":")[0],) * counts[2],
                threads=256,
            )
        )
    return found


# Where A and B start in shared memory, and their descriptors: leading and stride byte offset by
# swizzle, for K-major and MN-major operands.
_K_MAJOR = {0: (128, 256), 32: (0, 256), 64: (0, 512), 128: (0, 1024)}
_MN_MAJOR = {0: (1024, 128), 32: (512, 256), 64: (1024, 512), 128: (2048, 1024)}
_MODES = {0: 0, 128: 1, 64: 2, 32: 3}


def _descriptor(register: str, offset: int, swizzle: int, *, turned: bool) -> str:
    leading, stride = (_MN_MAJOR if turned else _K_MAJOR)[swizzle]
    constant = leading >> 4 << 16 | stride >> 4 << 32 | _MODES[swizzle] << 62
    return (
        f"add.u32 %r12, %r10, {offset}; and.b32 %r12, %r12, 0x3ffff; shr.u32 %r12, %r12, 4; "
        f"cvt.u64.u32 {register}, %r12; or.b64 {register}, {register}, {constant:#x}; "
    )


def _wgmma(
    columns: int,
    a: str,
    b: str,
    d: str,
    *,
    swizzle: int = 128,
    turned: tuple[bool, bool] = (False, False),
    registers: bool = False,
    start: int = 0,
    words: str = "",
    negate: bool = False,
    threads: int = 256,
) -> Form:
    """A block or two of a warpgroup; shared memory is full of elements wherever operands lie."""
    k = 8 * _PARTS[a]
    size = columns // (4 if d == "f16" else 2)
    # 64-bit words of shared memory that each thread fills: 8 KB of A, then 8 KB of B.
    inputs = [_element(a, 64)] * 8 + [_element(b, 64)] * 8 + [_sum(d)] * size
    fill = ["mov.u32 %r10, box; mad.lo.u32 %r11, %r0, 64, %r10; "]
    fill += [f"st.shared.b64 [%r11+{8192 * (i // 8) + 8 * (i % 8)}], $i{i}; " for i in range(16)]
    fill += ["fence.proxy.async.shared::cta; bar.sync 0; "]
    fill += [_descriptor("%d10", start, swizzle, turned=turned[0])]
    fill += [_descriptor("%d11", 8192 + start, swizzle, turned=turned[1])]
    left = "%d10"
    if registers:
        inputs += [_element(a)] * 4
        left = "{" + ", ".join(f"$i{16 + size + i}" for i in range(4)) + "}"
    sums = ", ".join(f"$o{i}" for i in range(size))
    moves = "".join(f"mov.b32 $o{i}, $i{16 + i}; " for i in range(size))
    tail = "1" if d == "s32" else f"1, {-1 if negate else 1}, 1"
    if k == 16:
        flags = [int(turned[1])] if registers else [int(t) for t in turned]
        tail += "".join(f", {flag}" for flag in flags)
    shape = f"m64n{columns}k{k}{words}.{d}.{a}.{b}"
    body = (
        "".join(fill) + moves + "wgmma.fence.sync.aligned; "
        f"wgmma.mma_async.sync.aligned.{shape} {{{sums}}}, {left}, %d11, {tail}; "
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
    )
    name = f"wgmma {shape} swizzle {swizzle}"
    name += "".join(f" {which} turned" for which, t in zip("AB", turned, strict=True) if t)
    name += (" A in registers" if registers else "") + (f" start {start}" if start else "")
    name += " negated" if negate else ""
    kinds = (_sum(d).partition(":")[0],) * size
    return Form(name, body, tuple(inputs), kinds, threads=threads, block=128, before=_BOX)


def _warpgroups() -> list[Form]:
    found = [_wgmma(8, a, b, d) for a, b, d in (
        ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"),
        ("tf32", "tf32", "f32"), ("e4m3", "e4m3", "f32"), ("e5m2", "e5m2", "f32"),
        ("e4m3", "e5m2", "f32"), ("e5m2", "e4m3", "f16"), ("s8", "s8", "s32"), ("u8", "u8", "s32"),
        ("s8", "u8", "s32"), ("u8", "s8", "s32"),
    )]  # fmt: skip
    found += [_wgmma(8, "s8", "s8", "s32", words=".satfinite")]
    found += [_wgmma(8, "f16", "f16", "f32", negate=True), _wgmma(24, "s8", "s8", "s32")]
    found += [_wgmma(16, a, a, "s32" if a == "s8" else "f32", registers=True)
              for a in ("f16", "bf16", "tf32", "e4m3", "s8")]  # fmt: skip
    for swizzle in (0, 32, 64):
        found += [_wgmma(16, a, a, "s32" if a == "s8" else "f32", swizzle=swizzle)
                  for a in ("f16", "e4m3", "s8")]  # fmt: skip
    for swizzle in (0, 32, 64, 128):
        for turned in ((True, False), (False, True), (True, True)):
            # A turned operand is made of whole rows of the pattern.
            columns = max(8, swizzle // 2) if turned[1] else 8
            found.append(_wgmma(columns, "f16", "f16", "f32", swizzle=swizzle, turned=turned))
    found += [_wgmma(16, "f16", "f16", "f32", start=start) for start in (32, 96)]
    # As wide as kernels have them; a B of two panels, one behind the other.
    found += [_wgmma(n, a, a, d, swizzle=swizzle, threads=128) for n, a, d, swizzle in (
        (64, "bf16", "f32", 128), (128, "f16", "f32", 64), (176, "e4m3", "f32", 32),
        (192, "bf16", "f32", 32), (256, "s8", "s32", 32),
    )]  # fmt: skip
    found += [_wgmma(columns, "f16", "f16", "f32", swizzle=swizzle, turned=(False, True),
                     threads=128)
              for swizzle, columns in ((32, 32), (64, 64), (128, 128))]  # fmt: skip
    return found
