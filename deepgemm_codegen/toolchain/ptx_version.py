"""The oldest PTX ISA version that a text needs, so that older drivers accept it too.

A compiler stamps the newest ``.version`` it knows, and a driver refuses PTX newer than itself
whatever the text uses. The version can be lowered to the oldest one that has the target and
every instruction. The tables here list instructions in the forms our kernels use; the tests hand
each form to ptxas, which must accept it at the listed version and refuse it one version earlier.
A form that no rule lists is taken to need the version that the compiler stamped.

Source: PTX ISA manual (Release Notes, and "PTX ISA Notes" of each instruction), and ptxas 13.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from deepgemm_codegen.errors import InternalError

__all__ = ["PtxRequirement", "lower_ptx_version", "ptx_requirement"]

Version = tuple[int, int]

# The oldest version with the target, by number and suffix. sm_88 stands at 9.0 in the manual.
_TARGETS: dict[str, Version] = {
    "sm_75": (6, 3),
    "sm_80": (7, 0),
    "sm_86": (7, 1),
    "sm_87": (7, 4),
    "sm_88": (9, 0),
    "sm_89": (7, 8),
    "sm_90": (7, 8),
    "sm_90a": (8, 0),
    "sm_100": (8, 6),
    "sm_100a": (8, 6),
    "sm_100f": (8, 8),
    "sm_103": (8, 8),
    "sm_103a": (8, 8),
    "sm_103f": (8, 8),
    "sm_110": (9, 0),
    "sm_110a": (9, 0),
    "sm_110f": (9, 0),
    "sm_120": (8, 7),
    "sm_120a": (8, 7),
    "sm_120f": (8, 8),
    "sm_121": (8, 8),
    "sm_121a": (8, 8),
    "sm_121f": (8, 8),
}

_INT = r"\.[us](?:16|32|64)"
_BITS = r"\.b(?:16|32|64)"
_ANY = r"\.(?:[usb](?:8|16|32|64)|f(?:16|32|64))"
_SCOPE = r"\.(?:cta|gpu|sys)"
_SPACE = r"\.(?:global|shared|local|param|const)"
_ROUND = r"(?:\.r[nzmp])"
_MMA = r"mma\.sync\.aligned"
_COLUMNS = r"\.row\.col"
_SATURATE = r"(?:\.satfinite)?"
_TMA_HINTS = r"(?:\.multicast::cluster)?(?:\.L2::cache_hint)?"
_TX = r"\.mbarrier::complete_tx::bytes"
_BULK_OPS = r"\.(?:add|min|max|inc|dec|and|or|xor)"
_CACHE_HINTS = (
    r"(?:\.L1::(?:evict_normal|evict_unchanged|evict_first|evict_last|no_allocate))?"
    r"(?:\.L2::cache_hint)?(?:\.L2::(?:64|128|256)B)?"
)
_VECTOR = rf"(?:\.v2{_ANY}|\.v4\.(?:[usb](?:8|16|32)|f(?:16|32))|{_ANY})"

# (version, forms): an instruction needs the version of the first entry that matches it whole.
_FORMS: tuple[tuple[Version, str], ...] = (
    (
        (6, 3),  # the base of sm_75, the oldest target served
        "|".join(
            (
                rf"(?:add|sub)(?:\.sat|\.cc)?{_INT}",
                rf"(?:addc|subc)(?:\.cc)?{_INT}",
                rf"(?:mul|mad)\.(?:lo|hi|wide)(?:\.cc|\.sat)?{_INT}",
                rf"madc\.(?:lo|hi)(?:\.cc)?{_INT}",
                rf"(?:mul24|mad24)\.(?:lo|hi)\.[us]32|(?:div|rem|min|max|sad){_INT}",
                r"(?:abs|neg)\.s(?:16|32|64)",
                rf"(?:add|sub|mul|fma|mad){_ROUND}?(?:\.ftz)?(?:\.sat)?\.f(?:32|64)",
                rf"(?:add|sub|mul|fma){_ROUND}?(?:\.ftz)?(?:\.sat)?\.f16(?:x2)?",
                rf"div(?:{_ROUND}|\.approx|\.full)(?:\.ftz)?\.f(?:32|64)",
                r"(?:min|max|abs|neg)(?:\.ftz)?\.f(?:32|64)",
                rf"(?:rcp|sqrt)(?:{_ROUND}|\.approx)(?:\.ftz)?\.f(?:32|64)",
                r"(?:rsqrt|sin|cos|lg2|ex2)\.approx(?:\.ftz)?\.f32",
                r"copysign\.f(?:32|64)|testp\.[a-z]+\.f(?:32|64)",
                rf"(?:and|or|xor|not)(?:\.pred|{_BITS})|cnot{_BITS}",
                rf"shl{_BITS}|shr\.[usb](?:16|32|64)|shf\.[lr]\.(?:wrap|clamp)\.b32",
                r"lop3\.b32|prmt\.b32|bfi\.b(?:32|64)|bfe\.[us](?:32|64)|bfind\.[us](?:32|64)",
                r"(?:popc|clz|brev)\.b(?:32|64)|dp4a\.[us]32\.[us]32|dp2a\.(?:lo|hi)\.[us]32\.[us]32",
                rf"setp\.[a-z]+(?:\.(?:and|or|xor))?(?:\.ftz)?{_ANY}",
                rf"set\.[a-z]+(?:\.(?:and|or|xor))?(?:\.ftz)?\.(?:[us]32|f32){_ANY}",
                rf"selp{_ANY}|slct(?:\.ftz)?{_ANY}\.(?:s32|f32)",
                rf"mov(?:\.pred|{_ANY})",
                rf"cvt(?:{_ROUND}|\.r[nzmp]i)?(?:\.ftz)?(?:\.sat)?\.(?:[us](?:8|16|32|64)|f(?:16|32|64))"
                r"\.(?:[us](?:8|16|32|64)|f(?:16|32|64))",
                r"cvta(?:\.to)?\.(?:global|shared|local|const)\.u(?:32|64)",
                r"isspacep\.(?:global|shared|local)",
                rf"ld(?:\.weak|\.volatile|\.(?:relaxed|acquire){_SCOPE})?(?:{_SPACE})?"
                rf"(?:\.c[agsv]|\.lu)?(?:\.nc)?{_VECTOR}",
                rf"st(?:\.weak|\.volatile|\.(?:relaxed|release){_SCOPE})?(?:{_SPACE})?"
                rf"(?:\.cg|\.cs|\.wb|\.wt)?{_VECTOR}",
                rf"(?:atom|red)(?:\.(?:relaxed|acquire|release|acq_rel)(?:{_SCOPE})?|{_SCOPE})?"
                r"(?:\.global|\.shared)?"
                r"\.(?:add|min|max|inc|dec|and|or|xor|exch|cas)\.(?:[us](?:32|64)|b(?:32|64)|f(?:32|64))",
                r"red(?:\.global)?\.add\.noftz\.f16x2",
                r"prefetch(?:\.global)?\.L[12]",
                r"bar\.(?:sync|arrive)|barrier\.(?:sync|arrive)(?:\.aligned)?|bar\.warp\.sync",
                r"bar\.red\.(?:popc\.u32|and\.pred|or\.pred)",
                rf"membar\.(?:cta|gl|sys)|fence\.(?:sc|acq_rel){_SCOPE}",
                r"shfl\.sync\.(?:up|down|bfly|idx)\.b32|vote\.sync\.(?:all|any|uni)\.pred",
                r"vote\.sync\.ballot\.b32|match\.(?:any|all)\.sync\.b(?:32|64)|activemask\.b32",
                r"nanosleep\.u32|bra(?:\.uni)?|ret(?:\.uni)?|exit|trap|brkpt|call(?:\.uni)?",
            )
        ),
    ),
    (
        (6, 5),
        "|".join(
            (
                r"ldmatrix\.sync\.aligned\.m8n8\.x[124](?:\.trans)?(?:\.shared)?\.b16",
                rf"{_MMA}\.m16n8k8{_COLUMNS}\.(?:f16|f32)\.f16\.f16\.(?:f16|f32)",
                rf"{_MMA}\.m8n8k16{_COLUMNS}{_SATURATE}\.s32\.[us]8\.[us]8\.s32",
                r"cvt\.pack\.sat\.[us]16\.s32|cvt\.pack\.sat\.[us]8\.s32\.b32",
            )
        ),
    ),
    (
        (7, 0),
        "|".join(
            (
                rf"{_MMA}\.m16n8k16{_COLUMNS}\.(?:f16|f32)\.f16\.f16\.(?:f16|f32)",
                rf"{_MMA}\.m16n8k(?:8|16){_COLUMNS}\.f32\.bf16\.bf16\.f32",
                rf"{_MMA}\.m16n8k[48]{_COLUMNS}\.f32\.tf32\.tf32\.f32",
                rf"{_MMA}\.m16n8k(?:16|32){_COLUMNS}{_SATURATE}\.s32\.[us]8\.[us]8\.s32",
                rf"{_MMA}\.m16n8k(?:32|64){_COLUMNS}{_SATURATE}\.s32\.[us]4\.[us]4\.s32",
                rf"{_MMA}\.m8n8k4{_COLUMNS}\.f64\.f64\.f64\.f64",
                r"cp\.async\.(?:ca|cg)\.shared\.global",
                r"cp\.async\.(?:commit_group|wait_group|wait_all)",
                r"cp\.async\.mbarrier\.arrive(?:\.noinc)?(?:\.shared)?\.b64",
                r"mbarrier\.(?:init|inval|test_wait|arrive)(?:\.shared)?\.b64",
                r"redux\.sync\.(?:add|min|max)\.[us]32|redux\.sync\.(?:and|or|xor)\.b32",
                r"cvt\.r[nz](?:\.relu)?\.(?:bf16|bf16x2|f16x2)\.f32|cvt\.rna\.tf32\.f32",
                r"cvt\.r[nz]\.relu\.f16\.f32",
                r"fma\.rn(?:\.relu)?\.bf16(?:x2)?|fma\.rn(?:\.ftz)?\.relu\.f16(?:x2)?",
                r"(?:min|max)(?:\.ftz)?\.NaN\.f(?:16|16x2|32)|(?:min|max)(?:\.ftz)?\.f16(?:x2)?",
                r"(?:min|max)(?:\.NaN)?\.bf16(?:x2)?|(?:abs|neg)\.bf16(?:x2)?",
                r"(?:abs|neg)(?:\.ftz)?\.f16(?:x2)?",
                r"tanh\.approx\.(?:f32|f16|f16x2)|ex2\.approx\.f16(?:x2)?",
            )
        ),
    ),
    ((7, 1), r"mbarrier\.test_wait\.parity(?:\.shared)?\.b64"),
    (
        (7, 4),
        "|".join(
            (
                rf"ld(?:\.weak)?(?:\.global)?(?:\.nc)?{_CACHE_HINTS}{_VECTOR}",
                rf"st(?:\.weak)?(?:\.global)?{_CACHE_HINTS}{_VECTOR}",
                r"cp\.async\.(?:ca|cg)\.shared\.global(?:\.L2::cache_hint)?(?:\.L2::(?:64|128|256)B)?",
                r"prefetch\.global\.L2::(?:evict_last|evict_normal)",
                r"applypriority(?:\.global)?\.L2::evict_normal|discard(?:\.global)?\.L2",
                r"createpolicy\.fractional\.L2::evict_(?:first|last|normal|unchanged)\.b64",
            )
        ),
    ),
    ((7, 6), r"bmsk\.(?:clamp|wrap)\.b32|szext\.(?:clamp|wrap)\.[us]32"),
    ((7, 7), r"cvta(?:\.to)?\.param\.u64|isspacep\.param"),
    (
        (7, 8),
        "|".join(
            (
                r"ldmatrix\.sync\.aligned\.m8n8\.x[124](?:\.trans)?\.shared::cta\.b16",
                r"stmatrix\.sync\.aligned\.m8n8\.x[124](?:\.trans)?(?:\.shared(?:::cta)?)?\.b16",
                r"movmatrix\.sync\.aligned\.m8n8\.trans\.b16",
                rf"cp\.async\.(?:ca|cg)\.shared::cta\.global(?:\.L2::cache_hint)?(?:\.L2::(?:64|128|256)B)?",
                r"cp\.async\.mbarrier\.arrive(?:\.noinc)?\.shared::cta\.b64",
                r"mbarrier\.(?:init|inval|test_wait|test_wait\.parity|arrive)\.shared::cta\.b64",
                r"mbarrier\.try_wait(?:\.parity)?(?:\.shared(?:::cta)?)?\.b64",
                rf"(?:ld|st)(?:\.weak)?\.shared::(?:cta|cluster){_VECTOR}",
                rf"ld\.(?:relaxed|acquire)\.cluster\.(?:global|shared::cta|shared::cluster){_VECTOR}",
                rf"st\.(?:relaxed|release)\.cluster\.(?:global|shared::cta|shared::cluster){_VECTOR}",
                r"fence\.(?:sc|acq_rel)\.cluster",
                r"barrier\.cta\.(?:sync|arrive)(?:\.aligned)?",
                r"barrier\.cluster\.(?:arrive|wait)(?:\.aligned)?",
                r"mapa(?:\.shared::cluster)?\.u(?:32|64)|getctarank(?:\.shared::cluster)?\.u(?:32|64)",
                r"griddepcontrol\.(?:wait|launch_dependents)",
                r"isspacep\.shared::(?:cta|cluster)",
                r"(?:add|sub|mul)(?:\.rn)?\.bf16(?:x2)?",
                r"cvt\.f32\.bf16|cvt\.r[nz](?:\.relu)?\.tf32\.f32",
                r"ex2\.approx\.ftz\.bf16(?:x2)?|tanh\.approx\.bf16(?:x2)?",
                r"red(?:\.global)?\.add\.noftz\.bf16x2",
            )
        ),
    ),
    (
        (8, 0),
        "|".join(
            (
                r"wgmma\.(?:fence|commit_group|wait_group)\.sync\.aligned",
                r"wgmma\.mma_async\.sync\.aligned\.m64n\d+k\d+"
                r"\.(?:f16|f32)\.(?:f16|bf16|tf32|e4m3|e5m2)\.(?:f16|bf16|tf32|e4m3|e5m2)",
                r"wgmma\.mma_async\.sync\.aligned\.m64n\d+k32(?:\.satfinite)?\.s32\.[us]8\.[us]8",
                r"setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32",
                rf"cp\.async\.bulk\.shared::cluster\.global{_TX}{_TMA_HINTS}",
                r"cp\.async\.bulk\.global\.shared::cta\.bulk_group(?:\.L2::cache_hint)?",
                rf"cp\.async\.bulk\.shared::cluster\.shared::cta{_TX}",
                r"cp\.async\.bulk\.commit_group|cp\.async\.bulk\.wait_group(?:\.read)?",
                r"cp\.async\.bulk\.prefetch\.L2\.global(?:\.L2::cache_hint)?",
                rf"cp\.async\.bulk\.tensor\.[1-5]d\.shared::cluster\.global(?:\.tile)?{_TX}{_TMA_HINTS}",
                r"cp\.async\.bulk\.tensor\.[1-5]d\.global\.shared::cta(?:\.tile)?\.bulk_group"
                r"(?:\.L2::cache_hint)?",
                rf"cp\.reduce\.async\.bulk\.tensor\.[1-5]d\.global\.shared::cta{_BULK_OPS}(?:\.tile)?"
                r"\.bulk_group(?:\.L2::cache_hint)?",
                r"cp\.async\.bulk\.prefetch\.tensor\.[1-5]d\.L2\.global(?:\.tile)?(?:\.L2::cache_hint)?",
                r"prefetch(?:\.param)?\.tensormap",
                r"fence\.proxy\.async(?:\.global|\.shared::(?:cta|cluster))?",
                r"fence\.mbarrier_init\.release\.cluster",
                r"mbarrier\.arrive\.expect_tx(?:\.(?:release|relaxed)\.(?:cta|cluster))?"
                r"(?:\.shared(?:::cta|::cluster)?)?\.b64",
                r"mbarrier\.arrive\.release\.(?:cta|cluster)(?:\.shared(?:::cta|::cluster)?)?\.b64",
                r"mbarrier\.arrive\.shared::cluster\.b64",
                r"mbarrier\.(?:expect_tx|complete_tx)\.relaxed\.(?:cta|cluster)"
                r"(?:\.shared(?:::cta|::cluster)?)?\.b64",
                r"mbarrier\.(?:test_wait|try_wait)(?:\.parity)?\.acquire\.(?:cta|cluster)"
                r"(?:\.shared(?:::cta)?)?\.b64",
                r"barrier\.cluster\.(?:arrive\.(?:release|relaxed)|wait\.acquire)(?:\.aligned)?",
                r"elect\.sync",
                r"(?:min|max)\.relu\.(?:s32|s16x2)|(?:add|min|max)\.[us]16x2",
            )
        ),
    ),
    (
        (8, 1),
        "|".join(
            (
                # On sm_90 these exist from 7.8 on; sm_89 needs 8.1, which serves both.
                r"cvt\.rn\.satfinite(?:\.relu)?\.(?:e4m3x2|e5m2x2)\.(?:f32|f16x2)",
                r"cvt\.rn(?:\.relu)?\.f16x2\.(?:e4m3x2|e5m2x2)",
                rf"st\.async(?:\.weak)?(?:\.shared::cluster)?{_TX}(?:\.v[24])?\.[busf](?:32|64)",
                r"red(?:\.global)?\.add(?:\.noftz)?\.v[24]\.(?:f32|f16|bf16|f16x2|bf16x2)",
            )
        ),
    ),
    ((8, 2), r"lop3\.(?:and|or)\.b32"),
    ((8, 3), r"mov\.b128|fence\.proxy\.tensormap::generic\.(?:acquire|release)\.(?:cta|cluster|gpu|sys)"),
    ((8, 4), rf"{_MMA}\.m16n8k32{_COLUMNS}\.f32\.e[45]m[32]\.e[45]m[32]\.f32"),
    (
        (8, 6),
        "|".join(
            (
                rf"cp\.async\.bulk\.shared::cta\.global{_TX}(?:\.L2::cache_hint)?",
                rf"cp\.async\.bulk\.tensor\.[1-5]d\.shared::cta\.global(?:\.tile)?{_TX}"
                r"(?:\.L2::cache_hint)?",
                rf"(?:add|sub|mul|fma){_ROUND}?(?:\.ftz)?\.f32x2",
                r"redux\.sync\.(?:min|max)(?:\.abs)?(?:\.NaN)?\.f32",
            )
        ),
    ),
    (
        (8, 7),
        "|".join(
            (
                rf"{_MMA}\.m16n8k16{_COLUMNS}\.f32\.e[45]m[32]\.e[45]m[32]\.f32",
                rf"{_MMA}\.m16n8k(?:16|32){_COLUMNS}\.f16\.e[45]m[32]\.e[45]m[32]\.f16",
                rf"{_MMA}\.m16n8k32{_COLUMNS}\.kind::f8f6f4\.f32\.e[0-9]m[0-9]\.e[0-9]m[0-9]\.f32",
            )
        ),
    ),
    (
        (8, 8),
        rf"ld\.global(?:\.nc)?{_CACHE_HINTS}\.v(?:8\.[busf]32|4\.[busf]64)"
        rf"|st\.global{_CACHE_HINTS}\.v(?:8\.[busf]32|4\.[busf]64)",
    ),
)

# Operands that ask for more than the instruction's name does; matched on the whole statement.
_OPERANDS: tuple[tuple[Version, str], ...] = (
    ((7, 1), r"mbarrier\.arrive\S*\s+_\s*,"),
    ((7, 5), r"cp\.async\.c[ag]\.\S+\s+[^,]+,[^,]+,[^,]+,(?!\s*%?r?\d)"),  # ignore-src, a predicate
    ((7, 8), r"mbarrier\.arrive\.\S+\s+[^,]+,\s*\[[^]]*\]\s*,"),  # an arrival count
    ((8, 8), r"(?:min|max)\.\S+\s+[^,]+,[^,]+,[^,]+,"),  # three inputs
)

_SPECIAL_REGISTERS: tuple[tuple[Version, str], ...] = (
    (
        (6, 3),
        r"n?tid|n?ctaid|laneid|n?warpid|n?smid|gridid|lanemask_(?:eq|le|lt|ge|gt)|clock|clock_hi"
        r"|clock64|globaltimer|globaltimer_lo|globaltimer_hi|total_smem_size|dynamic_smem_size",
    ),
    (
        (7, 8),
        r"n?clusterid|cluster_n?ctaid|cluster_n?ctarank|is_explicit_cluster",
    ),
    ((8, 1), r"aggr_smem_size"),
)

_TYPES = r"pred|[usb](?:8|16|32|64)|f(?:16|16x2|32|64)"
_DIRECTIVES: tuple[tuple[Version, str], ...] = (
    (
        (6, 3),
        rf"{_TYPES}|reg|param|shared|global|const|local|extern|visible|weak|common|entry|func|align"
        r"|ptr|v2|v4|maxntid|reqntid|minnctapersm|maxnctapersm|maxnreg|pragma",
    ),
    ((6, 4), r"noreturn"),
    ((7, 8), r"reqnctapercluster|explicitcluster|maxclusterrank"),
    ((8, 3), r"b128"),
    ((9, 0), r"blocksareclusters"),
)


def _compiled(table: tuple[tuple[Version, str], ...]) -> list[tuple[Version, re.Pattern[str]]]:
    return [(version, re.compile(pattern)) for version, pattern in table]


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"[^"\n]*"')
_HEADER = re.compile(r"^[ \t]*\.version[ \t]+(\d+)\.(\d+)[ \t\r]*$", re.MULTILINE)
_TARGET = re.compile(r"^[ \t]*\.target[ \t]+(\w+)[ \t\r]*$", re.MULTILINE)
_LINE_DIRECTIVE = re.compile(r"^[ \t]*\.(?:version|target|address_size|file|loc)\b[^\n]*", re.MULTILINE)
_INLINED = re.compile(r"^[ \t]*\.loc\b[^\n]*\b(?:function_name|inlined_at)\b", re.MULTILINE)
_SECTION = re.compile(r"\.section\s+[\w.]+\s*\{[^}]*\}")
_LABEL = re.compile(r"(?:[\w$]+:(?!:)\s*)+")
_PREDICATE = re.compile(r"@!?%?[\w$]+\s+")
_OPCODE = re.compile(r"[a-z][\w.:]*")
_WORD = re.compile(r"\.([A-Za-z_]\w*)")
# Registers as NVRTC names them are cheap to leave out; any other name is looked up.
_PERCENT = re.compile(r"%(?!(?:r|rd|rs|f|fd|p|h|hh|q|b)\d)([A-Za-z_]\w*)")
_DECLARED = re.compile(r"\.reg\s+[\w.\s]*?((?:%?[\w$]+(?:<\d+>)?\s*,?\s*)+)(?=;)")


@dataclass(frozen=True, slots=True)
class PtxRequirement:
    """The oldest PTX ISA version a text needs, and the part of the text that needs it."""

    version: Version
    because: str

    def __str__(self) -> str:
        return f"PTX ISA {self.version[0]}.{self.version[1]} ({self.because})"


def ptx_requirement(ptx: str) -> PtxRequirement:
    """The oldest version that has the target and all instructions of ``ptx``.

    Never newer than the text's own ``.version``, and equal to it when anything in the text is
    unknown here; versions are compared as pairs of integers, so that 7.10 would follow 7.9.
    """
    text = _STRING.sub('""', _COMMENT.sub(" ", ptx))
    header, target = _HEADER.search(text), _TARGET.search(text)
    if header is None or target is None:
        raise InternalError("this is no PTX that a compiler wrote: no .version or .target line")
    stamped = (int(header[1]), int(header[2]))
    needs = [(_TARGETS.get(target[1]), f"target {target[1]}")]
    if _INLINED.search(text):
        needs.append(((7, 2), ".loc inlined_at"))
    text, sections = _SECTION.subn(" ", text)
    if sections:
        needs.append(((7, 2), ".section"))
    text = _LINE_DIRECTIVE.sub(" ", text)
    needs += _special_registers(text)
    statements = {" ".join(statement.split()) for statement in _statements(text)}
    needs += _instructions(statements)
    for version, because in needs:
        if version is None:
            return PtxRequirement(stamped, f"unknown here: {because}")
    version, because = max(
        ((version, because) for version, because in needs if version is not None),
        key=lambda need: need[0],
    )
    return PtxRequirement(min(version, stamped), because)


def lower_ptx_version(ptx: str) -> str:
    """``ptx`` with its ``.version`` lowered as far as ``ptx_requirement`` allows."""
    major, minor = ptx_requirement(ptx).version
    return _HEADER.sub(f".version {major}.{minor}", ptx, count=1)


def _statements(text: str) -> list[str]:
    """Splits PTX at ``;`` and at the braces of blocks, leaving those of operands alone."""
    found: list[str] = []
    current, depth = "", 0
    for piece in re.split(r"([;{}])", text):
        if piece == "{" and (depth or _opens_operand(current)):
            depth += 1
        elif piece == "}" and depth:
            depth -= 1
        elif piece in {";", "{", "}"}:
            found.append(current)
            current = ""
        else:
            current += piece
    return found


def _opens_operand(before: str) -> bool:
    head = _PREDICATE.sub("", _LABEL.sub("", before.strip(), count=1), count=1).strip()
    return bool(head) and ".entry" not in head and ".func" not in head


Needs = list[tuple[Version | None, str]]


def _special_registers(text: str) -> Needs:
    names = set(_PERCENT.findall(text))
    declared = " ".join(_DECLARED.findall(text))
    known = _compiled(_SPECIAL_REGISTERS)
    return [
        (_first(known, name), f"%{name}")
        for name in sorted(names)
        if not re.search(rf"%{re.escape(name.rstrip('0123456789'))}(?:<|\d*\b)", declared)
    ]


def _instructions(statements: set[str]) -> Needs:
    forms, directives = _compiled(_FORMS), _compiled(_DIRECTIVES)
    operands = _compiled(_OPERANDS)
    needs: dict[str, Version | None] = {}
    for statement in sorted(statements):
        body = _PREDICATE.sub("", _LABEL.sub("", statement, count=1), count=1).strip()
        if not body:
            continue
        if body.startswith("."):
            for word in _WORD.findall(body.partition("=")[0]):
                needs[f".{word}"] = _first(directives, word)
            continue
        opcode = _OPCODE.match(body)
        name = opcode[0] if opcode else body[:40]
        if name not in needs:
            needs[name] = _first(forms, name)
        for version, pattern in operands:
            if pattern.match(body):
                needs[body] = version
    return [(version, because) for because, version in needs.items()]


def _first(table: list[tuple[Version, re.Pattern[str]]], text: str) -> Version | None:
    return next((version for version, pattern in table if pattern.fullmatch(text)), None)
