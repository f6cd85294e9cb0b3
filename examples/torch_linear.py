"""A generated kernel as a PyTorch operator: on the current stream, in CUDA graphs, compiled.

    cmake -S examples -B build-examples -DGEMM_ARCH=90a && cmake --build build-examples
    python examples/torch_linear.py build-examples/libengine.so

The library chooses among its kernels for each number of rows; PyTorch sees one operator.
"""

import ctypes
import sys
from typing import Any

import torch

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int


def load(path: str) -> Any:
    """``linear_relu`` of the library that ``engine.c`` and the kernels make."""
    function = ctypes.CDLL(path).linear_relu
    function.argtypes = [_POINTER] * 4 + [_INT] * 4 + [_POINTER]
    function.restype = _INT
    return function


def register(path: str) -> None:
    """Makes ``torch.ops.deepgemm.linear_relu(x, weight, bias)`` of a library."""
    launch = load(path)

    @torch.library.custom_op("deepgemm::linear_relu", mutates_args=(), device_types="cuda")
    def linear_relu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        _check(x, weight, bias)
        rows = x.reshape(-1, x.shape[-1])
        y = x.new_empty((rows.shape[0], weight.shape[0]))
        major, minor = torch.cuda.get_device_capability(x.device)
        with torch.cuda.device(x.device):
            stream = torch.cuda.current_stream().cuda_stream
            error = launch(
                rows.data_ptr(), weight.data_ptr(), bias.data_ptr(), y.data_ptr(),
                rows.shape[0], weight.shape[0], weight.shape[1], 10 * major + minor, stream,
            )  # fmt: skip
        if error:
            sizes = f"{rows.shape[0]} x {weight.shape[0]} x {weight.shape[1]}"
            raise RuntimeError(f"linear_relu of {sizes} failed with {error}")
        return y.reshape(*x.shape[:-1], weight.shape[0])

    @linear_relu.register_fake
    def _(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """The shape alone, for torch.compile."""
        del bias
        return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _check(*tensors: torch.Tensor) -> None:
    for tensor in tensors:
        if tensor.dtype != torch.float16 or not tensor.is_contiguous():
            raise ValueError("linear_relu takes contiguous fp16 tensors")
        if tensor.data_ptr() % 16:  # align_a and so on of the kernel file
            raise ValueError("linear_relu takes tensors that start on 16 bytes")


def main() -> int:
    """Eager, on a stream of its own, compiled, and captured: each against PyTorch's own layer."""
    register(sys.argv[1])
    layer = torch.ops.deepgemm.linear_relu
    torch.manual_seed(1)
    weight = torch.randn(1024, 1024, device="cuda", dtype=torch.float16) / 32
    bias = torch.randn(1024, device="cuda", dtype=torch.float16)

    def wanted(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.nn.functional.linear(x.float(), weight.float(), bias.float()))

    def compare(name: str, x: torch.Tensor, y: torch.Tensor) -> None:
        error = (y.float() - wanted(x)).abs().max().item()
        print(f"{name}: the largest error is {error:.2g}")
        if not error < 0.02:  # also when it is NaN
            raise SystemExit(1)

    for rows in (1, 64, 777, 4096):
        x = torch.randn(rows, 1024, device="cuda", dtype=torch.float16)
        compare(f"m = {rows}", x, layer(x, weight, bias))
    x = torch.randn(3, 100, 1024, device="cuda", dtype=torch.float16)
    compare("three dimensions", x, layer(x, weight, bias))

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        on_stream = layer(x, weight, bias)
    torch.cuda.current_stream().wait_stream(stream)
    compare("another stream", x, on_stream)

    compiled = torch.compile(
        lambda x: layer(x, weight, bias) * 1.0, backend="aot_eager", fullgraph=True
    )
    compare("compiled", x, compiled(x))

    given = torch.zeros_like(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = layer(given, weight, bias)
    for _ in range(2):
        given.copy_(torch.randn_like(given))
        graph.replay()
        compare("captured", given, captured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
