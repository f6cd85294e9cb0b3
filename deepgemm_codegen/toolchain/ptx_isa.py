"""Since which PTX ISA version each target, instruction, operand and directive exists.

The forms are those our kernels and NVRTC's output for them use, and their near relatives. The
tests hand an example of every line to ptxas, which must accept it at the line's version and
refuse it one version earlier. Source: the "PTX ISA Notes" of each instruction in the PTX ISA
manual, and ptxas 13.0 where the two differ.

One form a line, in a regular expression where a dot is a dot and ``<name>`` stands for an entry
of ``_PARTS``. An instruction needs the version of the first line that matches it whole.
"""

from __future__ import annotations

import re

__all__ = ["DIRECTIVES", "FORMS", "OPERANDS", "SPECIAL_REGISTERS", "TARGETS", "Version"]

Version = tuple[int, int]

TARGETS: dict[str, Version] = {
    "sm_75": (6, 3),
    "sm_80": (7, 0),
    "sm_86": (7, 1),
    "sm_87": (7, 4),
    "sm_88": (9, 0),  # by the manual; ptxas 13.0 takes it from 7.3 on
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

_PARTS = {
    "int": ".[us](16|32|64)",
    "bits": ".b(16|32|64)",
    "any": ".([usb](8|16|32|64)|f(16|32|64))",
    "number": ".([us](8|16|32|64)|f(16|32|64))",
    "vector": "(.v2<any>|.v4.([usb](8|16|32)|f(16|32))|<any>)",
    "round": "(.rn|.rz|.rm|.rp)",
    "scope": "(.cta|.gpu|.sys)",
    "space": "(.global|.shared|.local|.param|.const)",
    "mma": "mma.sync.aligned",
    "wgmma": "wgmma.mma_async.sync.aligned.m64n[0-9]+k",
    "matrix": ".sync.aligned.m8n8.x[124](.trans)?",
    "lines": "(.L2::(64|128|256)B)?",
    "hint": "(.L2::cache_hint)?",
    "hints": "(.L1::(evict_(normal|unchanged|first|last)|no_allocate))?<hint><lines>",
    "bulk": "cp.async.bulk",
    "tensor": "cp.async.bulk.tensor.[1-5]d",
    "landed": ".mbarrier::complete_tx::bytes",
    "cta": "(.shared(::cta)?)?",
    "cluster": "(.shared(::cta|::cluster)?)?",
    "within": "(.cta|.cluster)",
    "fp8": ".e[45]m[23]",
    "atomic": ".(add|min|max|inc|dec|and|or|xor|exch|cas).([usb](32|64)|f(32|64))",
    "reduction": ".(add|min|max|inc|dec|and|or|xor)",
}

_FORMS: dict[Version, str] = {
    # The base of sm_75, the oldest target served.
    (6, 3): """
        (add|sub)(.sat|.cc)?<int>
        (addc|subc)(.cc)?<int>
        (mul|mad).(lo|hi|wide)(.cc|.sat)?<int>
        madc.(lo|hi)(.cc)?<int>
        (mul24|mad24).(lo|hi).[us]32
        (div|rem|min|max|sad)<int>
        (abs|neg).s(16|32|64)
        (add|sub|mul|fma|mad)<round>?(.ftz)?(.sat)?.f(32|64)
        (add|sub|mul|fma)(.rn)?(.ftz)?(.sat)?.f16(x2)?
        div(<round>|.approx|.full)(.ftz)?.f(32|64)
        (min|max|abs|neg)(.ftz)?.f(32|64)
        (rcp|sqrt)(<round>|.approx)(.ftz)?.f(32|64)
        (rsqrt|sin|cos|lg2|ex2).approx(.ftz)?.f32
        copysign.f(32|64)
        testp.[a-z]+.f(32|64)
        (and|or|xor|not)(.pred|<bits>)
        cnot<bits>
        shl<bits>
        shr.[usb](16|32|64)
        shf.[lr].(wrap|clamp).b32
        lop3.b32
        prmt.b32
        bfi.b(32|64)
        (bfe|bfind).[us](32|64)
        (popc|clz|brev).b(32|64)
        dp4a.[us]32.[us]32
        dp2a.(lo|hi).[us]32.[us]32
        setp.[a-z]+(.and|.or|.xor)?(.ftz)?<any>
        set.[a-z]+(.and|.or|.xor)?(.ftz)?.([us]32|f32)<any>
        selp<any>
        slct(.ftz)?<any>.(s32|f32)
        mov(.pred|<any>)
        cvt(<round>|.r[nzmp]i)?(.ftz)?(.sat)?<number><number>
        cvta(.to)?.(global|shared|local|const).u(32|64)
        isspacep.(global|shared|local)
        ld(.weak|.volatile|(.relaxed|.acquire)<scope>)?<space>?(.ca|.cg|.cs|.cv|.lu)?(.nc)?<vector>
        st(.weak|.volatile|(.relaxed|.release)<scope>)?<space>?(.cg|.cs|.wb|.wt)?<vector>
        (atom|red)((.relaxed|.acquire|.release|.acq_rel)<scope>?|<scope>)?(.global|.shared)?<atomic>
        red(.global)?.add.noftz.f16x2
        prefetch(.global)?.L[12]
        bar.(sync|arrive)
        barrier.(sync|arrive)(.aligned)?
        bar.warp.sync
        bar.red.(popc.u32|and.pred|or.pred)
        membar.(cta|gl|sys)
        fence.(sc|acq_rel)<scope>
        shfl.sync.(up|down|bfly|idx).b32
        vote.sync.(all|any|uni).pred
        vote.sync.ballot.b32
        match.(any|all).sync.b(32|64)
        activemask.b32
        nanosleep.u32
        (bra|ret|call)(.uni)?
        exit|trap|brkpt|pmevent(.mask)?
    """,
    (6, 5): """
        ldmatrix<matrix>(.shared)?.b16
        <mma>.m16n8k8.row.col.(f16|f32).f16.f16.(f16|f32)
        <mma>.m8n8k16.row.col(.satfinite)?.s32.[us]8.[us]8.s32
        cvt.pack.sat.[us]16.s32
        cvt.pack.sat.[us]8.s32.b32
    """,
    (7, 0): """
        <mma>.m16n8k16.row.col.(f16|f32).f16.f16.(f16|f32)
        <mma>.m16n8k(8|16).row.col.f32.bf16.bf16.f32
        <mma>.m16n8k[48].row.col.f32.tf32.tf32.f32
        <mma>.m16n8k(16|32).row.col(.satfinite)?.s32.[us]8.[us]8.s32
        <mma>.m16n8k(32|64).row.col(.satfinite)?.s32.[us]4.[us]4.s32
        <mma>.m8n8k4.row.col.f64.f64.f64.f64
        cp.async.(ca|cg).shared.global
        cp.async.(commit_group|wait_group|wait_all)
        cp.async.mbarrier.arrive(.noinc)?(.shared)?.b64
        mbarrier.(init|inval|test_wait|arrive)(.shared)?.b64
        redux.sync.(add|min|max).[us]32
        redux.sync.(and|or|xor).b32
        cvt.r[nz](.relu)?.(bf16|bf16x2|f16x2).f32
        cvt.r[nz].relu.f16.f32
        cvt.rna.tf32.f32
        fma.rn(.relu)?.bf16(x2)?
        fma.rn(.ftz)?.relu.f16(x2)?
        (min|max)(.ftz)?.NaN.f(16|16x2|32)
        (min|max)(.ftz)?.f16(x2)?
        (min|max)(.NaN)?.bf16(x2)?
        (abs|neg).bf16(x2)?
        (abs|neg)(.ftz)?.f16(x2)?
        tanh.approx.(f32|f16|f16x2)
        ex2.approx.f16(x2)?
    """,
    (7, 1): """
        mbarrier.test_wait.parity(.shared)?.b64
    """,
    (7, 4): """
        ld(.weak)?(.global)?(.nc)?<hints><vector>
        st(.weak)?(.global)?<hints><vector>
        cp.async.(ca|cg).shared.global<hint><lines>
        prefetch.global.L2::(evict_last|evict_normal)
        applypriority(.global)?.L2::evict_normal
        discard(.global)?.L2
        createpolicy.fractional.L2::evict_(first|last|normal|unchanged).b64
    """,
    (7, 6): """
        bmsk.(clamp|wrap).b32
        szext.(clamp|wrap).[us]32
    """,
    (7, 7): """
        cvta.param.u64
        isspacep.param
    """,
    (7, 8): """
        ldmatrix<matrix>.shared::cta.b16
        stmatrix<matrix><cta>.b16
        movmatrix.sync.aligned.m8n8.trans.b16
        cp.async.(ca|cg).shared::cta.global<hint><lines>
        cp.async.mbarrier.arrive(.noinc)?.shared::cta.b64
        mbarrier.(init|inval|test_wait|test_wait.parity|arrive).shared::cta.b64
        mbarrier.try_wait(.parity)?<cta>.b64
        (ld|st)(.weak)?.shared::(cta|cluster)<vector>
        ld.(relaxed|acquire).cluster.(global|shared::cta|shared::cluster)<vector>
        st.(relaxed|release).cluster.(global|shared::cta|shared::cluster)<vector>
        fence.(sc|acq_rel).cluster
        barrier.cta.(sync|arrive)(.aligned)?
        barrier.cluster.(arrive|wait)(.aligned)?
        mapa(.shared::cluster)?.u(32|64)
        getctarank(.shared::cluster)?.u(32|64)
        griddepcontrol.(wait|launch_dependents)
        isspacep.shared::(cta|cluster)
        (add|sub|mul)(.rn)?.bf16(x2)?
        cvt.f32.bf16
        cvt.r[nz](.relu)?.tf32.f32
        ex2.approx.ftz.bf16(x2)?
        tanh.approx.bf16(x2)?
        red(.global)?.add.noftz.bf16x2
    """,
    (8, 0): """
        wgmma.(fence|commit_group|wait_group).sync.aligned
        <wgmma>16.(f16|f32).f16.f16
        <wgmma>16.f32.bf16.bf16
        <wgmma>8.f32.tf32.tf32
        <wgmma>32.(f16|f32)<fp8><fp8>
        <wgmma>32(.satfinite)?.s32.(s8.s8|u8.u8)
        setmaxnreg.(inc|dec).sync.aligned.u32
        <bulk>.shared::cluster.global<landed>(.multicast::cluster)?<hint>
        <bulk>.shared::cluster.shared::cta<landed>
        <bulk>.global.shared::cta.bulk_group<hint>
        <bulk>.commit_group
        <bulk>.wait_group(.read)?
        <bulk>.prefetch.L2.global<hint>
        <tensor>.shared::cluster.global(.tile)?<landed>(.multicast::cluster)?<hint>
        <tensor>.global.shared::cta(.tile)?.bulk_group<hint>
        cp.reduce.async.bulk.tensor.[1-5]d.global.shared::cta<reduction>(.tile)?.bulk_group<hint>
        <bulk>.prefetch.tensor.[1-5]d.L2.global(.tile)?<hint>
        prefetch(.param)?.tensormap
        fence.proxy.async(.global|.shared::cta|.shared::cluster)?
        fence.mbarrier_init.release.cluster
        mbarrier.arrive.expect_tx((.release|.relaxed)<within>)?<cluster>.b64
        mbarrier.arrive.release<within><cluster>.b64
        mbarrier.arrive.shared::cluster.b64
        mbarrier.(expect_tx|complete_tx).relaxed<within><cluster>.b64
        mbarrier.(test_wait|try_wait)(.parity)?.acquire<within><cta>.b64
        barrier.cluster.(arrive.release|arrive.relaxed|wait.acquire)(.aligned)?
        elect.sync
        (min|max).relu.(s32|s16x2)
        (add|min|max).[us]16x2
    """,
    # The fp8 conversions exist on sm_90 from 7.8 on; sm_89 needs 8.1, which serves both.
    (8, 1): """
        cvt.rn.satfinite(.relu)?.(e4m3x2|e5m2x2).(f32|f16x2)
        cvt.rn(.relu)?.f16x2.(e4m3x2|e5m2x2)
        st.async(.weak)?(.shared::cluster)?<landed>(.v[24])?.[busf](32|64)
        red(.global)?.add(.noftz)?.v[24].(f32|f16|bf16|f16x2|bf16x2)
    """,
    (8, 2): """
        lop3.(and|or).b32
    """,
    (8, 3): """
        mov.b128
        fence.proxy.tensormap::generic.(acquire|release).(cta|cluster|gpu|sys)
    """,
    (8, 4): """
        <mma>.m16n8k32.row.col.f32<fp8><fp8>.f32
        <wgmma>32(.satfinite)?.s32.(s8.u8|u8.s8)
    """,
    (8, 6): """
        <bulk>.shared::cta.global<landed><hint>
        <tensor>.shared::cta.global(.tile)?<landed><hint>
        (add|sub|mul|fma)<round>?(.ftz)?.f32x2
        redux.sync.(min|max)(.abs)?(.NaN)?.f32
    """,
    (8, 7): """
        <mma>.m16n8k16.row.col.f32<fp8><fp8>.f32
        <mma>.m16n8k(16|32).row.col.f16<fp8><fp8>.f16
        <mma>.m16n8k32.row.col.kind::f8f6f4.f32.e[245]m[123].e[245]m[123].f32
    """,
    (8, 8): """
        (ld|st).global(.nc)?<hints>.v(8.[busf]32|4.[busf]64)
    """,
}


def _expression(form: str) -> str:
    while "<" in form:
        form = re.sub(r"<(\w+)>", lambda name: f"({_PARTS[name[1]]})", form)
    return form.replace(".", r"\.")


FORMS: tuple[tuple[Version, str], ...] = tuple(
    (version, _expression(form)) for version, forms in _FORMS.items() for form in forms.split()
)

# Operands that ask for more than the instruction's name does; matched at a statement's start.
OPERANDS: tuple[tuple[Version, str], ...] = (
    ((7, 1), r"mbarrier\.arrive\S*\s+_\s*,"),
    ((7, 5), r"cp\.async\.c[ag]\.\S+\s+[^,]+,[^,]+,[^,]+,(?!\s*%?(?:rd?)?\d)"),  # a predicate
    ((7, 8), r"mbarrier\.arrive\.\S+\s+[^,]+,\s*\[[^]]*\]\s*,"),  # an arrival count
    ((8, 8), r"(?:min|max)\.\S+\s+[^,]+,[^,]+,[^,]+,"),  # three inputs
)

SPECIAL_REGISTERS: tuple[tuple[Version, str], ...] = (
    ((6, 3), "n?tid|n?ctaid|laneid|n?warpid|n?smid|gridid|lanemask_(eq|le|lt|ge|gt)"),
    ((6, 3), "clock|clock_hi|clock64|globaltimer(_lo|_hi)?|(total|dynamic)_smem_size"),
    ((7, 8), "n?clusterid|cluster_n?ctaid|cluster_n?ctarank|is_explicit_cluster"),
    ((8, 1), "aggr_smem_size"),
)

DIRECTIVES: tuple[tuple[Version, str], ...] = (
    ((6, 3), "pred|[usb](8|16|32|64)|f(16|16x2|32|64)|v2|v4"),
    ((6, 3), "reg|param|shared|global|const|local|extern|visible|weak|common|entry|func"),
    ((6, 3), "align|ptr|maxntid|reqntid|minnctapersm|maxnctapersm|maxnreg|pragma"),
    ((6, 4), "noreturn"),
    ((7, 8), "reqnctapercluster|explicitcluster|maxclusterrank"),
    ((8, 3), "b128"),
    ((9, 0), "blocksareclusters"),
)
