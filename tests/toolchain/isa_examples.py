"""Instructions with operands, one a line after its target: examples of every form in the tables.

Registers are those that ``program`` declares. Lines before which nothing older exists for the
target cannot be shown to be refused earlier; the others are.
"""

from __future__ import annotations

__all__ = ["DIRECTIVE_EXAMPLES", "EXAMPLES", "program"]

EXAMPLES = [
    (line.split(None, 1)[0], line.split(None, 1)[1])
    for line in r"""
sm_75 add.s32 %r1, %r2, %r3;
sm_75 add.sat.s32 %r1, %r2, %r3;
sm_75 add.cc.u32 %r1, %r2, %r3;
sm_75 sub.s64 %rd2, %rd3, %rd4;
sm_75 addc.u32 %r1, %r2, %r3;
sm_75 addc.cc.u32 %r1, %r2, %r3;
sm_75 mul.wide.s32 %rd2, %r2, %r3;
sm_75 mul.hi.u32 %r1, %r2, %r3;
sm_75 mad.lo.s64 %rd2, %rd3, %rd4, %rd5;
sm_75 mad.wide.u32 %rd2, %r1, %r2, %rd3;
sm_75 mad.lo.cc.u32 %r1, %r2, %r3, %r4;
sm_75 madc.hi.u32 %r1, %r2, %r3, %r4;
sm_75 mul24.lo.u32 %r1, %r2, %r3;
sm_75 div.u32 %r1, %r2, %r3;
sm_75 rem.s64 %rd2, %rd3, %rd4;
sm_75 max.s16 %h1, %h2, %h3;
sm_75 abs.s32 %r1, %r2;
sm_75 neg.s64 %rd2, %rd3;
sm_75 fma.rn.f32 %f1, %f2, %f3, %f4;
sm_75 fma.rn.ftz.sat.f32 %f1, %f2, %f3, %f4;
sm_75 mul.f32 %f1, %f2, %f3;
sm_75 add.rn.f64 %fd1, %fd2, %fd3;
sm_75 fma.rn.f16x2 %r1, %r2, %r3, %r4;
sm_75 mul.f16 %h1, %h2, %h3;
sm_75 add.sat.f16x2 %r1, %r2, %r3;
sm_75 div.full.f32 %f1, %f2, %f3;
sm_75 div.rn.f32 %f1, %f2, %f3;
sm_75 max.f32 %f1, %f2, %f3;
sm_75 abs.ftz.f32 %f1, %f2;
sm_75 rcp.approx.ftz.f32 %f1, %f2;
sm_75 sqrt.rn.f32 %f1, %f2;
sm_75 ex2.approx.ftz.f32 %f1, %f2;
sm_75 lg2.approx.f32 %f1, %f2;
sm_75 rsqrt.approx.f32 %f1, %f2;
sm_75 copysign.f32 %f1, %f2, %f3;
sm_75 testp.notanumber.f32 %p1, %f1;
sm_75 and.b32 %r1, %r2, %r3;
sm_75 not.pred %p1, %p2;
sm_75 cnot.b32 %r1, %r2;
sm_75 shl.b64 %rd2, %rd3, 3;
sm_75 shr.u32 %r1, %r2, 3;
sm_75 shf.l.wrap.b32 %r1, %r2, %r3, 4;
sm_75 lop3.b32 %r1, %r2, %r3, %r4, 0x6a;
sm_75 prmt.b32 %r1, %r2, %r3, 0x5410;
sm_75 bfi.b32 %r1, %r2, %r3, 1, 2;
sm_75 bfe.u32 %r1, %r2, 1, 2;
sm_75 bfind.u32 %r1, %r2;
sm_75 popc.b32 %r1, %r2;
sm_75 dp4a.s32.s32 %r1, %r2, %r3, %r4;
sm_75 dp2a.lo.s32.s32 %r1, %r2, %r3, %r4;
sm_75 setp.lt.and.s32 %p1, %r1, %r2, %p2;
sm_75 setp.ltu.f32 %p1, %f1, %f2;
sm_75 setp.neu.f16 %p1, %h1, %h2;
sm_75 set.eq.u32.f32 %r1, %f1, %f2;
sm_75 selp.b32 %r1, %r2, %r3, %p1;
sm_75 slct.f32.s32 %f1, %f2, %f3, %r1;
sm_75 mov.u32 %r1, %tid.x;
sm_75 mov.b64 {%r1, %r2}, %rd2;
sm_75 mov.b32 %r1, {%h1, %h2};
sm_75 cvt.rn.f16.f32 %h1, %f1;
sm_75 cvt.f32.f16 %f1, %h1;
sm_75 cvt.rni.sat.s8.f32 %r1, %f1;
sm_75 cvt.u64.u32 %rd2, %r1;
sm_75 cvta.to.global.u64 %rd2, %rd3;
sm_75 cvta.shared.u64 %rd2, %rd3;
sm_75 isspacep.shared %p1, %rd2;
sm_75 ld.param.u64 %rd2, [p];
sm_75 ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
sm_75 ld.global.cg.f32 %f1, [%rd1];
sm_75 ld.volatile.global.u32 %r1, [%rd1];
sm_75 ld.acquire.gpu.global.u32 %r1, [%rd1];
sm_75 ld.shared.v2.b64 {%rd2, %rd3}, [%r1];
sm_75 st.global.cs.v4.f32 [%rd1], {%f1, %f2, %f3, %f4};
sm_75 st.release.gpu.global.u32 [%rd1], %r1;
sm_75 st.shared.b8 [%r1], %h1;
sm_75 atom.global.add.u32 %r1, [%rd1], 1;
sm_75 atom.acq_rel.gpu.global.add.u32 %r1, [%rd1], 1;
sm_75 atom.global.cas.b32 %r1, [%rd1], 1, 2;
sm_75 red.release.gpu.global.add.s32 [%rd1], 1;
sm_75 red.global.add.f32 [%rd1], %f1;
sm_75 red.global.add.noftz.f16x2 [%rd1], %r1;
sm_75 prefetch.global.L2 [%rd1];
sm_75 bar.sync 1, 128;
sm_75 bar.arrive 1, 128;
sm_75 barrier.sync.aligned 1, 128;
sm_75 bar.warp.sync -1;
sm_75 bar.red.popc.u32 %r1, 0, %p1;
sm_75 membar.gl;
sm_75 fence.acq_rel.gpu;
sm_75 shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;
sm_75 shfl.sync.idx.b32 %r1|%p1, %r2, 1, 31, -1;
sm_75 vote.sync.any.pred %p1, %p2, -1;
sm_75 vote.sync.ballot.b32 %r1, %p1, -1;
sm_75 match.any.sync.b32 %r1, %r2, -1;
sm_75 activemask.b32 %r1;
sm_75 nanosleep.u32 20;
sm_75 @%p1 bra.uni LABEL; LABEL:
sm_75 exit;
sm_75 mov.u64 %rd2, %clock64;
sm_75 mov.u32 %r1, %dynamic_smem_size;
sm_75 ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
sm_75 ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r1, %r2}, [%r5];
sm_75 mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4},{%r1,%r2},{%r3},{%f1,%f2,%f3,%f4};
sm_75 mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32 {%r1,%r2},{%r3},{%r4},{%r1,%r2};
sm_75 cvt.pack.sat.s16.s32 %r1, %r2, %r3;
sm_75 cvt.pack.sat.s8.s32.b32 %r1, %r2, %r3, %r4;
sm_80 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4},{%r1,%r2,%r3,%r4},{%r5,%r6},{%f1,%f2,%f3,%f4};
sm_80 mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4},{%r1,%r2,%r3,%r4},{%r5,%r6},{%f1,%f2,%f3,%f4};
sm_80 mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4},{%r1,%r2,%r3,%r4},{%r5,%r6},{%f1,%f2,%f3,%f4};
sm_80 mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r7,%r8,%r9,%r10},{%r1,%r2,%r3,%r4},{%r5,%r6},{%r7,%r8,%r9,%r10};
sm_80 mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%r7,%r8,%r9,%r10},{%r1,%r2,%r3,%r4},{%r5,%r6},{%r7,%r8,%r9,%r10};
sm_80 mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1,%fd2},{%fd3},{%fd4},{%fd1,%fd2};
sm_80 cp.async.cg.shared.global [%r1], [%rd1], 16;
sm_80 cp.async.ca.shared.global [%r1], [%rd1], 16, %r2;
sm_80 cp.async.ca.shared.global [%r1], [%rd1], 8, 4;
sm_80 cp.async.commit_group;
sm_80 cp.async.wait_group 1;
sm_80 cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];
sm_80 mbarrier.init.shared.b64 [%r1], 1;
sm_80 mbarrier.arrive.shared.b64 %rd2, [%r1];
sm_80 mbarrier.test_wait.shared.b64 %p1, [%r1], %rd2;
sm_80 redux.sync.add.s32 %r1, %r2, -1;
sm_80 redux.sync.or.b32 %r1, %r2, -1;
sm_80 cvt.rn.bf16.f32 %h1, %f1;
sm_80 cvt.rn.relu.bf16x2.f32 %r1, %f1, %f2;
sm_80 cvt.rn.f16x2.f32 %r1, %f1, %f2;
sm_80 cvt.rn.relu.f16.f32 %h1, %f1;
sm_80 cvt.rna.tf32.f32 %r1, %f1;
sm_80 fma.rn.bf16x2 %r1, %r2, %r3, %r4;
sm_80 fma.rn.relu.f16x2 %r1, %r2, %r3, %r4;
sm_80 max.NaN.f32 %f1, %f2, %f3;
sm_80 min.f16x2 %r1, %r2, %r3;
sm_80 max.NaN.bf16x2 %r1, %r2, %r3;
sm_80 neg.bf16 %h1, %h2;
sm_75 neg.f16x2 %r1, %r2;
sm_75 abs.f16 %h1, %h2;
sm_75 tanh.approx.f32 %f1, %f2;
sm_75 ex2.approx.f16x2 %r1, %r2;
sm_80 mbarrier.test_wait.parity.shared.b64 %p1, [%r1], %r2;
sm_80 mbarrier.arrive.shared.b64 _, [%r1];
sm_75 ld.global.nc.L1::no_allocate.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
sm_75 ld.global.nc.L2::128B.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
sm_75 ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
sm_80 ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1], %rd2;
sm_75 st.global.L1::no_allocate.u32 [%rd1], %r1;
sm_80 cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16;
sm_80 cp.async.cg.shared.global.L2::cache_hint [%r1], [%rd1], 16, %rd2;
sm_80 cp.async.cg.shared.global.L2::cache_hint.L2::128B [%r1], [%rd1], 16, %rd2;
sm_80 prefetch.global.L2::evict_last [%rd1];
sm_80 applypriority.global.L2::evict_normal [%rd1], 128;
sm_80 discard.global.L2 [%rd1], 128;
sm_80 createpolicy.fractional.L2::evict_first.b64 %rd2, 1.0;
sm_80 cp.async.cg.shared.global [%r1], [%rd1], 16, %p1;
sm_75 bmsk.clamp.b32 %r1, %r2, %r3;
sm_75 szext.clamp.s32 %r1, %r2, %r3;
sm_75 cvta.param.u64 %rd2, %rd3;
sm_75 isspacep.param %p1, %rd2;
sm_80 ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%r1, %r2, %r3, %r4}, [%r5];
sm_90 stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r1], {%r2, %r3, %r4, %r5};
sm_75 movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;
sm_80 cp.async.cg.shared::cta.global [%r1], [%rd1], 16;
sm_80 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];
sm_80 mbarrier.init.shared::cta.b64 [%r1], 1;
sm_90 mbarrier.arrive.shared.b64 %rd2, [%r1], 1;
sm_90 mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;
sm_90 mbarrier.try_wait.shared.b64 %p1, [%r1], %rd2;
sm_80 ld.shared::cta.u32 %r1, [%r2];
sm_90 st.shared::cluster.u32 [%r1], %r2;
sm_90 ld.acquire.cluster.global.u32 %r1, [%rd1];
sm_90 st.release.cluster.global.u32 [%rd1], %r1;
sm_90 fence.acq_rel.cluster;
sm_75 barrier.cta.sync.aligned 1, 128;
sm_90 barrier.cluster.arrive.aligned;
sm_90 mapa.shared::cluster.u32 %r1, %r2, %r3;
sm_90 getctarank.shared::cluster.u32 %r1, %r2;
sm_90 griddepcontrol.wait;
sm_80 isspacep.shared::cta %p1, %rd2;
sm_90 add.rn.bf16x2 %r1, %r2, %r3;
sm_90 mul.bf16 %h1, %h2, %h3;
sm_90 cvt.f32.bf16 %f1, %h1;
sm_90 cvt.rn.tf32.f32 %r1, %f1;
sm_90 ex2.approx.ftz.bf16 %h1, %h2;
sm_90 tanh.approx.bf16 %h1, %h2;
sm_90 red.global.add.noftz.bf16x2 [%rd1], %r1;
sm_90 mov.u32 %r1, %cluster_ctarank;
sm_90 mov.u32 %r1, %clusterid.x;
sm_90 mov.u32 %r1, %cluster_nctaid.x;
sm_90a wgmma.fence.sync.aligned;
sm_90a wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, 1, 1, 1, 0, 0;
sm_90a wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, %p1, 1, 1, 0, 0;
sm_90a wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f1,%f2,%f3,%f4}, %rd1, %rd2, 1, 1, 1;
sm_90a wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {%f1,%f2,%f3,%f4}, %rd1, %rd2, 1, 1, 1;
sm_90a wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1,%r2,%r3,%r4}, %rd1, %rd2, 1;
sm_90a setmaxnreg.dec.sync.aligned.u32 24;
sm_90 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r2];
sm_90 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r3], 64, [%r2];
sm_90 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;
sm_90 cp.async.bulk.commit_group;
sm_90 cp.async.bulk.wait_group.read 0;
sm_90 cp.async.bulk.prefetch.L2.global [%rd1], 64;
sm_90 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];
sm_90 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r1], [%rd1, {%r2, %r3}], [%r4], %rd5;
sm_90a cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd1, {%r2, %r3}], [%r4], %h1;
sm_90 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r2, %r3}], [%r1];
sm_90 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd1, {%r2, %r3}], [%r1];
sm_90 cp.async.bulk.prefetch.tensor.2d.L2.global [%rd1, {%r2, %r3}];
sm_90 prefetch.tensormap [%rd1];
sm_90 fence.proxy.async.shared::cta;
sm_90 fence.mbarrier_init.release.cluster;
sm_90 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1;
sm_90 mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r1], 1;
sm_90 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];
sm_90 mbarrier.arrive.shared::cluster.b64 _, [%r1];
sm_90 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 1;
sm_90 mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r1], %r2;
sm_90 barrier.cluster.arrive.release.aligned;
sm_90 barrier.cluster.wait.acquire.aligned;
sm_90 elect.sync %r1|%p1, -1;
sm_90 max.relu.s32 %r1, %r2, %r3;
sm_90 add.s16x2 %r1, %r2, %r3;
sm_89 cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;
sm_89 cvt.rn.f16x2.e5m2x2 %r1, %h1;
sm_90 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];
sm_90 red.global.add.v4.f32 [%rd1], {%f1, %f2, %f3, %f4};
sm_90 mov.u32 %r1, %aggr_smem_size;
sm_75 lop3.or.b32 %r1|%p1, %r2, %r3, %r4, 0x6a, %p2;
sm_80 { .reg .b128 q; mov.b128 q, {%rd1, %rd2}; }
sm_90 fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
sm_89 mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%f1,%f2,%f3,%f4},{%r1,%r2,%r3,%r4},{%r5,%r6},{%f1,%f2,%f3,%f4};
sm_90 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r2];
sm_90 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];
sm_100 fma.rn.f32x2 %rd2, %rd3, %rd4, %rd5;
sm_100a redux.sync.max.f32 %f1, %f2, -1;
sm_89 mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e5m2.f32 {%f1,%f2,%f3,%f4},{%r1,%r2},{%r5},{%f1,%f2,%f3,%f4};
sm_89 mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 {%r7,%r8},{%r1,%r2,%r3,%r4},{%r5,%r6},{%r7,%r8};
sm_120a mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e2m1.f32 {%f1,%f2,%f3,%f4},{%r1,%r2,%r3,%r4},{%r5,%r6},{%f1,%f2,%f3,%f4};
sm_100 ld.global.nc.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1];
sm_100 st.global.v4.b64 [%rd1], {%rd2, %rd3, %rd4, %rd5};
sm_100 max.f32 %f1, %f2, %f3, %f4;
""".strip().splitlines()
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
