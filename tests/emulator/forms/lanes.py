"""Forms of one thread each: arithmetic, conversions, bits."""

from __future__ import annotations

from tests.emulator.forms.form import Form

__all__ = ["forms"]


def _op(opcode: str, inputs: str, output: str, tail: str = "") -> Form:
    """``opcode o, i0, i1, ...``; ``inputs`` are kinds, a blank between."""
    kinds = tuple(inputs.split())
    operands = ", ".join(f"$i{i}" for i in range(len(kinds)))
    return Form(opcode, f"{opcode} $o0, {operands}{tail};", kinds, (output,))


def forms() -> list[Form]:
    """All of them."""
    return [
        *_addresses(),
        *_integers(),
        *_bits(),
        *_floats(),
        *_halves(),
        *_conversions(),
        *_approximations(),
    ]


def _addresses() -> list[Form]:
    """What compilers make addresses, guards and loops of."""
    found = [_op(f"{name}.{kind}", f"{kind} {kind}", kind)
             for kind in ("s16", "s32", "s64") for name in ("add", "sub", "mul.lo")]  # fmt: skip
    found += [_op(f"mad.lo.{kind}", f"{kind} {kind} {kind}", kind) for kind in ("s32", "s64")]
    found += [_op(f"mul.wide.{kind}16", f"{kind}16 {kind}16", f"{kind}32") for kind in "us"]
    for bits in (16, 32, 64):
        found += [_op(f"{name}.b{bits}", f"u{bits} u{bits}", f"u{bits}")
                  for name in ("and", "or", "xor")]  # fmt: skip
        found += [_op(f"not.b{bits}", f"u{bits}", f"u{bits}")]
        found += [
            Form(f"selp.b{bits}", f"setp.ne.s32 %p1, $i2, 0; selp.b{bits} $o0, $i0, $i1, %p1;",
                 (f"u{bits}", f"u{bits}", "u32:2"), (f"u{bits}",))
        ]  # fmt: skip
    found += [
        _op(f"{name}.{kind}", kind, kind) for name in ("neg", "abs") for kind in ("s32", "s64")
    ]
    found += [
        Form(f"setp.{test}.{kind}", f"setp.{test}.{kind} %p1, $i0, $i1; selp.u32 $o0, 1, 0, %p1;",
             (kind, kind), ("u32",))
        for kind in ("s16", "u16", "s32", "u32", "s64", "u64")
        for test in ("eq", "ne", "lt", "le", "gt", "ge")
    ]  # fmt: skip
    found += [
        Form(f"setp.lt.{word}.s32",
             f"setp.ne.s32 %p2, $i2, 0; setp.lt.{word}.s32 %p1, $i0, $i1, %p2; "
             "selp.u32 $o0, 1, 0, %p1;",
             ("s32", "s32", "u32:2"), ("u32",))
        for word in ("and", "or", "xor")
    ]  # fmt: skip
    found += [_op(f"cvt.{to}.{kind}", kind, to)
              for to, kind in (("s64", "s32"), ("u64", "u32"), ("u32", "u64"), ("u32", "u16"),
                               ("s32", "s16"), ("u16", "u32"), ("s16", "s32"))]  # fmt: skip
    found += [_op(f"cvt.{to}.{kind}", f"{kind[0]}{to[1:]}", to)
              for to in ("s16", "s32") for kind in ("s8", "u8")]  # fmt: skip
    found += [
        Form("mov.b64 {b32, b32}", "mov.b64 $o0, {$i0, $i1};", ("u32", "u32"), ("u64",)),
        Form("mov.b32 {b16, b16}", "mov.b32 $o0, {$i0, $i1};", ("u16", "u16"), ("u32",)),
        Form("{b32, b32} mov.b64", "mov.b64 {$o0, $o1}, $i0;", ("u64",), ("u32", "u32")),
        Form("{b16, b16} mov.b32", "mov.b32 {$o0, $o1}, $i0;", ("u32",), ("u16", "u16")),
    ]
    return found


def _integers() -> list[Form]:
    found = []
    for kind, wide in (("u32", "u64"), ("s32", "s64")):
        found += [_op(f"{name}.{kind}", f"{kind} {kind}", kind)
                  for name in ("mul.hi", "min", "max")]  # fmt: skip
        found += [_op(f"{name}.{kind}", f"{kind} {kind}:nonzero", kind) for name in ("div", "rem")]
        found += [
            _op(f"mul.wide.{kind}", f"{kind} {kind}", wide),
            _op(f"mad.wide.{kind}", f"{kind} {kind} {wide}", wide),
            _op(f"mad.hi.{kind}", f"{kind} {kind} {kind}", kind),
            _op(f"mul.hi.{wide}", f"{wide} {wide}", wide),
            _op(f"div.{wide}", f"{wide} {wide}:nonzero", wide),
            _op(f"rem.{wide}", f"{wide} {wide}:nonzero", wide),
            _op(f"sad.{kind}", f"{kind} {kind} {kind}", kind),
            _op(f"mul24.lo.{kind}", f"{kind} {kind}", kind),
            _op(f"mad24.hi.{kind}", f"{kind} {kind} {kind}", kind),
            _op(f"shr.{kind}", f"{kind} u32:small", kind),
            _op(f"shr.{wide}", f"{wide} u32:80", wide),
        ]
    found += [_op("shl.b32", "u32 u32:small", "u32"), _op("shl.b64", "u64 u32:80", "u64")]
    found += [
        Form("add.cc.u32 addc.u32", "add.cc.u32 $o0, $i0, $i2; addc.u32 $o1, $i1, $i3;",
             ("u32",) * 4, ("u32", "u32")),
        Form("sub.cc.u64 subc.u64", "sub.cc.u64 $o0, $i0, $i2; subc.u64 $o1, $i1, $i3;",
             ("u64",) * 4, ("u64", "u64")),
        Form("mad.lo.cc.u32 madc.hi.u32",
             "mad.lo.cc.u32 $o0, $i0, $i1, $i2; madc.hi.u32 $o1, $i0, $i1, 0;",
             ("u32",) * 3, ("u32", "u32")),
        _op("slct.u32.s32", "u32 u32 s32", "u32"), _op("slct.u32.f32", "u32 u32 f32", "u32"),
        _op("slct.ftz.u32.f32", "u32 u32 f32", "u32"),
    ]  # fmt: skip
    return found


def _bits() -> list[Form]:
    found = [_op(f"prmt.b32{mode}", "u32 u32 u32", "u32")
             for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16")]  # fmt: skip
    found += [
        _op("lop3.b32", "u32 u32 u32", "u32", ", 0xCA"),
        _op("bfi.b32", "u32 u32 u32:small u32:small", "u32"),
        _op("bfi.b64", "u64 u64 u32:80 u32:80", "u64"),
        _op("popc.b64", "u64", "u32"), _op("clz.b64", "u64", "u32"), _op("brev.b64", "u64", "u64"),
        _op("clz.b32", "u32", "u32"), _op("brev.b32", "u32", "u32"),
    ]  # fmt: skip
    for kind in ("u32", "s32"):
        found += [_op(f"dp4a.{other}.{kind}", "u32 u32 u32", "u32") for other in ("u32", "s32")]
        found += [_op(f"dp2a.{part}.{kind}.s32", "u32 u32 u32", "u32") for part in ("lo", "hi")]
        found += [_op(f"bfe.{kind}", f"{kind} u32:small u32:small", kind)]
        found += [_op(f"bfind.{kind}", kind, "u32"), _op(f"bfind.shiftamt.{kind}", kind, "u32")]
    for kind in ("u64", "s64"):
        found += [
            _op(f"bfe.{kind}", f"{kind} u32:80 u32:80", kind),
            _op(f"bfind.{kind}", kind, "u32"),
        ]
    found += [_op(f"shf.{way}.{how}.b32", "u32 u32 u32:small", "u32")
              for way in "lr" for how in ("clamp", "wrap")]  # fmt: skip
    return found


def _floats() -> list[Form]:
    found = []
    for mode in ("rn", "rz", "rm", "rp"):
        found += [_op(f"{name}.{mode}.f32", "f32 f32", "f32") for name in ("add", "sub", "mul")]
        found += [_op(f"fma.{mode}.f32", "f32 f32 f32", "f32")]
    found += [
        _op("add.rn.ftz.f32", "f32 f32", "f32"), _op("mul.rn.ftz.f32", "f32 f32", "f32"),
        _op("fma.rn.ftz.f32", "f32 f32 f32", "f32"), _op("fma.rn.sat.f32", "f32 f32 f32", "f32"),
        _op("add.rn.sat.f32", "f32 f32", "f32"),
        _op("div.rn.f32", "f32 f32", "f32"), _op("sqrt.rn.f32", "f32", "f32"),
        _op("rcp.rn.f32", "f32", "f32"),
        _op("neg.f32", "f32", "f32"), _op("abs.f32", "f32", "f32"),
        _op("abs.ftz.f32", "f32", "f32"),
        _op("copysign.f32", "f32 f32", "f32"),
    ]  # fmt: skip
    for name in ("min", "max"):
        found += [_op(f"{name}{words}.f32", "f32 f32", "f32")
                  for words in ("", ".NaN", ".ftz", ".xorsign.abs")]  # fmt: skip
        found += [_op(f"{name}.f64", "f64 f64", "f64")]
    for compare in ("eq", "ne", "lt", "le", "equ", "neu", "ltu", "geu", "num", "nan"):
        found.append(
            Form(f"setp.{compare}.f32",
                 f"setp.{compare}.f32 %p1, $i0, $i1; selp.u32 $o0, 1, 0, %p1;",
                 ("f32", "f32"), ("u32",))
        )  # fmt: skip
    for kind in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        found.append(
            Form(f"testp.{kind}.f32", f"testp.{kind}.f32 %p1, $i0; selp.u32 $o0, 1, 0, %p1;",
                 ("f32",), ("u32",))
        )  # fmt: skip
    found += [_op(f"{name}.f64", "f64 f64", "f64") for name in ("add.rn", "mul.rn", "div.rn")]
    found += [_op("fma.rn.f64", "f64:sense f64:sense f64:sense", "f64")]
    found += [_op("sqrt.rn.f64", "f64:sense", "f64")]
    return found


def _halves() -> list[Form]:
    found = []
    for kind in ("f16", "bf16"):
        for packed in ("", "x2"):
            name = kind + packed
            rounding = ".rn" if kind == "bf16" else ""
            found += [_op(f"{op}{rounding}.{name}", f"{name} {name}", name)
                      for op in ("add", "sub", "mul")]  # fmt: skip
            found += [
                _op(f"fma.rn.{name}", f"{name} {name} {name}", name),
                _op(f"min.{name}", f"{name} {name}", name),
                _op(f"max.NaN.{name}", f"{name} {name}", name),
                _op(f"neg.{name}", name, name), _op(f"abs.{name}", name, name),
            ]  # fmt: skip
        found.append(
            Form(f"setp.lt.{kind}", f"setp.lt.{kind} %p1, $i0, $i1; selp.u32 $o0, 1, 0, %p1;",
                 (kind, kind), ("u32",))
        )  # fmt: skip
    return found


def _conversions() -> list[Form]:
    found = []
    for kind in ("f16", "bf16"):
        found += [_op(f"cvt.{words}.{kind}.f32", "f32", kind)
                  for words in ("rn", "rz", "rn.relu", "rn.satfinite")]  # fmt: skip
        found += [_op(f"cvt.{words}.{kind}x2.f32", "f32 f32", f"{kind}x2")
                  for words in ("rn", "rz", "rn.relu")]  # fmt: skip
        found += [_op(f"cvt.f32.{kind}", kind, "f32")]
    found += [_op("cvt.rna.tf32.f32", "f32", "u32"), _op("cvt.rn.tf32.f32", "f32", "u32"),
              _op("cvt.rz.tf32.f32", "f32", "u32")]  # fmt: skip
    for kind in ("e4m3", "e5m2"):
        for relu in ("", ".relu"):
            found += [
                _op(f"cvt.rn.satfinite{relu}.{kind}x2.f32", "f32 f32", "u16"),
                _op(f"cvt.rn.satfinite{relu}.{kind}x2.f16x2", "f16x2", "u16"),
                _op(f"cvt.rn{relu}.f16x2.{kind}x2", "u16", "f16x2"),
            ]
    for kind in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
        out = "u64" if kind.endswith("64") else "u32"
        found += [_op(f"cvt.rni.{kind}.f32", "f32", out), _op(f"cvt.rzi.{kind}.f32", "f32", out)]
        if kind in ("s8", "u8", "s32"):
            found += [_op(f"cvt.rni.sat.{kind}.f32", "f32", out)]
            found += [_op(f"cvt.sat.{kind}.{'u32' if kind == 's32' else 's32'}", "u32", out)]
    found += [_op("cvt.rmi.s32.f32", "f32", "u32"), _op("cvt.rpi.u32.f32", "f32", "u32"),
              _op("cvt.rni.s32.f16", "f16", "u32"), _op("cvt.rzi.s32.f64", "f64", "u32"),
              _op("cvt.rzi.u64.f64", "f64", "u64")]  # fmt: skip
    for mode in ("rn", "rz", "rm", "rp"):
        found += [_op(f"cvt.{mode}.f32.{kind}", kind, "f32") for kind in ("s32", "u32")]
        found += [
            _op(f"cvt.{mode}i.f32.f32", "f32", "f32"),
            _op(f"cvt.{mode}.f32.f64", "f64", "f32"),
        ]
    found += [
        _op("cvt.rn.f32.u64", "u64", "f32"), _op("cvt.rn.f32.s64", "s64", "f32"),
        _op("cvt.rn.f64.u64", "u64", "f64"), _op("cvt.f64.f32", "f32", "f64"),
        _op("cvt.rn.f16.s32", "s32", "f16"), _op("cvt.rn.f16.u32", "u32", "f16"),
        _op("cvt.sat.f32.f32", "f32", "f32"), _op("cvt.ftz.f32.f32", "f32", "f32"),
        _op("cvt.pack.sat.s8.s32.b32", "s32 s32 u32", "u32"),
        _op("cvt.pack.sat.u8.s32.b32", "s32 s32 u32", "u32"),
        _op("cvt.pack.sat.s16.s32", "s32 s32", "u32"),
    ]  # fmt: skip
    return found


def _approximations() -> list[Form]:
    found = [_op(f"{name}.approx{ftz}.f32", "f32", "f32")
             for name in ("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos")
             for ftz in ("", ".ftz")]  # fmt: skip
    found += [_op("tanh.approx.f32", "f32", "f32"),
              _op("div.full.f32", "f32:sense f32:sense", "f32"),
              _op("div.approx.f32", "f32:sense f32:sense", "f32")]  # fmt: skip
    for name in ("ex2", "tanh"):
        for kind in ("f16", "f16x2", "bf16", "bf16x2"):
            ftz = ".ftz" if name == "ex2" and kind.startswith("bf16") else ""
            found.append(_op(f"{name}.approx{ftz}.{kind}", kind, kind))
    return found
