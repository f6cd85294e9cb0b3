"""Instructions with operands, one a line after its target: examples of every form in the tables.

Registers are those that ``program`` declares. Lines before which nothing older exists for the
target cannot be shown to be refused earlier; the others are.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["DIRECTIVE_EXAMPLES", "EXAMPLES", "program"]

EXAMPLES = [
    (target, statement)
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    for target, statement in [line.split(None, 1)]
]

# Directives of a kernel's head, with the target that has them.
DIRECTIVE_EXAMPLES = [
    (
        "sm_75",
        ".visible .entry k2(.param .u64 .ptr .global .align 16 a) .maxntid 128, 1, 1 { ret; }",
    ),
    ("sm_75", ".visible .entry k2() .reqntid 128 .minnctapersm 2 { ret; }"),
    ("sm_75", ".visible .entry k2() .maxnreg 64 { ret; }"),
    ("sm_75", ".extern .shared .align 128 .b8 dynamic[];"),
    ("sm_75", ".global .align 4 .b8 table[4] = {1, 2, 3, 4};"),
    ("sm_90", ".visible .entry k2() .reqntid 128 .reqnctapercluster 2, 1, 1 { ret; }"),
    ("sm_90", ".visible .entry k2() .explicitcluster { ret; }"),
    ("sm_90", ".visible .entry k2() .reqntid 128 .reqnctapercluster 2 .blocksareclusters { ret; }"),
]


def program(version: tuple[int, int], target: str, body: str = "", head: str = "") -> str:
    """A PTX text that declares registers and holds ``body``."""
    return f"""\
.version {version[0]}.{version[1]}
.target {target}
.address_size 64

{head}
.visible .entry k(.param .u64 p)
{{
.reg .b16 %h<20>;
.reg .b32 %r<40>;
.reg .f32 %f<80>;
.reg .b64 %rd<20>;
.reg .f64 %fd<8>;
.reg .pred %p<4>;
ld.param.u64 %rd1, [p];
{body}
ret;
}}
"""
