"""deepgemm_codegen: readable, verified CUDA matrix-product kernels from a GEMM spec."""

__version__ = "0.1.0"
__all__ = ["__version__"]
