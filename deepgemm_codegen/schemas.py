"""The formats of what is written beside the kernels, as JSON Schema (draft 2020-12).

They stand in ``configs/schemas/`` for others to use; a test keeps them true. The schema of kernel
files, which people write, is `deepgemm_codegen.specfile.jsonschema`'s.
"""

from __future__ import annotations

from typing import Any

__all__ = ["SCHEMAS", "build_schema", "dispatch_schema", "manifest_schema"]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_GENERATOR = {"type": "string", "pattern": "^deepgemm_codegen [0-9]+\\.[0-9]+\\.[0-9]+"}
_TARGET = {"type": "string", "pattern": "^sm_[0-9]{2,3}[af]?$"}


def _object(properties: dict[str, Any], *, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """An object with these keys; others may be added by a later minor version."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }


def _list(items: dict[str, Any], *, least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least}


def _said(text: str, rule: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, **rule}


def _file(title: str, major: int, properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A whole file: its format and generator, then the rest."""
    version = {"type": "string", "pattern": f"^{major}\\.[0-9]+$"}
    head = {"format": _said("MAJOR.MINOR", version), "generator": _GENERATOR}
    return {"$schema": _DRAFT, "title": title, **_object({**head, **properties}, **more)}


def manifest_schema() -> dict[str, Any]:
    """``manifest.json``: what each kernel of a folder is."""
    role = {"name": _TEXT, "role": _TEXT}
    array = _said("whether it is an array of pointers, one a product", {"type": "boolean"})
    pointer = {"dtype": _TEXT, "array": array}
    decision = _object(
        {"id": _TEXT, "question": _TEXT, "choice": _TEXT, "reason": _TEXT, "rival": _TEXT},
        optional=("rival",),
    )
    tensor_map = _object(
        {
            "name": _TEXT,
            "pointer": _said("the caller's argument, or a region", _TEXT),
            "dtype": _TEXT,
            "inner": _said("elements of a row, an expression", _TEXT),
            "outer": _said("rows, an expression", _TEXT),
            "stride": _said("elements between rows, an expression", _TEXT),
            "box": _said("columns and rows of a copy", _list({"type": "integer", "minimum": 1})),
            "batch": _said("matrices, the third dimension; left out of one", _COUNT),
            "batch_stride": _said("elements between matrices, an expression", _TEXT),
            "panels": _said(
                "of the box's columns side by side; the map then has three dimensions: "
                "a panel's columns, the row's panels, rows",
                _COUNT,
            ),
        },
        optional=("batch", "batch_stride", "panels"),
    )
    plan = _said(
        "numbers and words of the plan, under the code's names",
        {
            "type": "object",
            "properties": {"body": _TEXT, "schedule": _TEXT},
            "required": ["body", "schedule"],
            "additionalProperties": {"type": ["integer", "string"]},
        },
    )
    launch = {
        "grid": _said("blocks, an expression over dynamic dimensions", _TEXT),
        "block": _said("threads", {"type": "integer", "minimum": 32}),
        "shared_bytes": _said("dynamic shared memory of a block", _COUNT),
    }
    own_parameters = _list(_object(role), least=1)
    region = _object(
        {
            "name": _said("the argument of the kernels that use it", _TEXT),
            "dtype": _TEXT,
            "bytes": _said("an expression", _TEXT),
            "offset": _said("bytes from the workspace's start, an expression", _TEXT),
        }
    )
    workspace = _object({"bytes": _said("an expression", _TEXT), "regions": _list(region)})
    launches = _object(
        {
            "kernel": _said("the entry symbol", _TEXT),
            **launch,
            "plan": plan,
            "kernel_parameters": own_parameters,
            "tensor_maps": _list(tensor_map),
        }
    )
    kernel = _object(
        {
            "name": _said("stem of the file and of the launcher; a lone kernel's symbol", _TEXT),
            "file": _said("the source, beside this file", _TEXT),
            "spec": _said("what was asked for, in one line", _TEXT),
            "target": _said("what the source is compiled for", _TARGET),
            "source_sha256": _SHA256,
            "launch": _said("of a lone kernel", _object(launch)),
            "plan": plan,
            "launches": _said("several kernels, in order", _list(launches, least=2)),
            "workspace": _said("what they pass on through memory of the caller's", workspace),
            "parameters": _said(
                "what the launcher takes, in order; a pointer has a dtype",
                _list(_object({**role, **pointer}, optional=tuple(pointer)), least=1),
            ),
            "kernel_parameters": _said(
                "what a lone kernel itself takes, where that differs", own_parameters
            ),
            "tensor_maps": _said("how the host makes the maps among them", _list(tensor_map)),
            "decisions": _list(decision),
        },
        optional=(
            *("launch", "plan", "kernel_parameters", "tensor_maps"),
            *("launches", "workspace"),
        ),
    )
    kernel["anyOf"] = [{"required": ["launch", "plan"]}, {"required": ["launches", "workspace"]}]
    left = _object({"file": _TEXT, "source_sha256": _SHA256})
    return _file(
        "manifest of deepgemm_codegen",
        1,
        {
            "kernels": _list(kernel, least=1),
            "left": _said("generated files that nobody asks for any more", _list(left, least=1)),
        },
        optional=("left",),
    )


def build_schema() -> dict[str, Any]:
    """``build.json``: what a compiler made of a folder."""
    resources = _object(
        {
            "kernel": _said("the entry symbol", _TEXT),
            "registers": _said("of a thread", _COUNT),
            "spill_store_bytes": _said("of a thread", _COUNT),
            "spill_load_bytes": _said("of a thread", _COUNT),
            "stack_bytes": _said("of a thread", _COUNT),
            "barriers": _said("of a block", _COUNT),
            "static_shared_bytes": _said("of a block", _COUNT),
            "shared_bytes": _said("of a block, dynamic ones too", _COUNT),
            "blocks_per_sm": _said("resident on the GPU that the plan was made for", _COUNT),
        }
    )
    kernel = _object(
        {
            "name": _TEXT,
            "target": _TARGET,
            "options": _said("of NVRTC", _list(_TEXT)),
            "source_sha256": _SHA256,
            "cubin_sha256": _SHA256,
            "cubin_bytes": {"type": "integer", "minimum": 1},
            "resources": _said("of each kernel, in launch order", _list(resources, least=1)),
        }
    )
    compiler = _said("name and release", _TEXT)
    return _file(
        "build of deepgemm_codegen", 1, {"compiler": compiler, "kernels": _list(kernel, least=1)}
    )


def dispatch_schema() -> dict[str, Any]:
    """``dispatch.json``: which kernel serves a problem."""
    fixed = {"type": "integer", "minimum": 0}
    size = {"anyOf": [fixed, _object({"max": {"type": "integer", "minimum": 1}})]}
    kernel = _object(
        {
            "name": _TEXT,
            "arch": _said("compute capability as a number", {"type": "integer", "minimum": 70}),
            "exact_arch": _said("the code runs on that very part alone", {"type": "boolean"}),
            **{name: _said("as fixed, or the most it may be", size) for name in ("m", "n", "k")},
            "workspace": _said("whether the launcher takes one", {"type": "boolean"}),
        },
        optional=("exact_arch", "workspace"),
    )
    operation = _object(
        {
            "operation": _said("what is computed beside sizes", _TEXT),
            "symbol": _said("its name in dispatch.h", {"type": "string", "pattern": "^DGEMM_"}),
            "kernels": _said("in the order in which they are asked", _list(kernel, least=1)),
        }
    )
    return _file("selector of deepgemm_codegen", 1, {"operations": _list(operation, least=1)})


SCHEMAS = {"manifest": manifest_schema, "build": build_schema, "dispatch": dispatch_schema}
"""By the stem of the file that each describes."""
