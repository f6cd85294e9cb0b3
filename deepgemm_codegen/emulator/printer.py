"""A tree back to PTX text, in one normal form: the inverse of the parser."""

from __future__ import annotations

from deepgemm_codegen.emulator import nodes

__all__ = ["print_instruction", "print_module", "print_operand"]


def print_operand(operand: nodes.Operand) -> str:
    """An operand as PTX."""
    match operand:
        case nodes.Name() | nodes.Immediate():
            return operand.text
        case nodes.Vector():
            inner = ", ".join(map(print_operand, operand.items))
            return f"({inner})" if operand.round else f"{{{inner}}}"
        case nodes.Pair():
            return f"{print_operand(operand.first)}|{print_operand(operand.second)}"
        case nodes.Negated():
            return f"!{operand.operand.text}"
        case nodes.Address():
            offset = f"+{operand.offset}" if operand.offset else ""
            extra = "".join(", " + print_operand(e) for e in operand.extra)
            return f"[{operand.base.text}{offset}{extra}]"


def print_instruction(ins: nodes.Instruction) -> str:
    """An instruction as PTX, without its semicolon."""
    guard = ""
    if ins.guard is not None:
        guard = f"@{'!' if ins.guard.negated else ''}{ins.guard.predicate} "
    operands = ", ".join(map(print_operand, ins.operands))
    return f"{guard}{'.'.join(ins.opcode)}{' ' if operands else ''}{operands}"


def print_module(module: nodes.Module) -> str:
    """The whole module as PTX."""
    lines = [
        f".version {module.version}",
        f".target {', '.join(module.target)}",
        f".address_size {module.address_size}",
    ]
    for item in module.items:
        lines.extend(_item(item))
    return "\n".join(lines) + "\n"


def _item(item: nodes.Item) -> list[str]:
    match item:
        case nodes.Function():
            return _function(item)
        case nodes.Variable():
            return [_variable(item)]
        case nodes.Directive():
            return [item.text + (";" if item.text.startswith(".pragma") else "")]
        case nodes.Section():
            body = [f"{i.name}:" if isinstance(i, nodes.Label) else i.text for i in item.items]
            return [f".section {item.name} {{", *body, "}"]


def _function(function: nodes.Function) -> list[str]:
    words = [function.linkage, f".{function.kind}"]
    if function.results:
        words.append(f"({', '.join(map(_parameter, function.results))})")
    head = " ".join(w for w in words if w)
    parameters = ",\n\t".join(map(_parameter, function.parameters))
    lines = [f"{head} {function.name}(\n\t{parameters}\n)"]
    lines.extend(d.text for d in function.directives)
    if function.body is None:
        return [*lines, ";"]
    return [*lines, *_block(function.body, "")]


def _parameter(parameter: nodes.Parameter) -> str:
    words = [".param"]
    if parameter.align:
        words.append(f".align {parameter.align}")
    words.append(f".{parameter.type}")
    if parameter.pointer:
        words.append(parameter.pointer)
    return f"{' '.join(words)} {parameter.name}{_count(parameter.count)}"


def _count(count: int | None) -> str:
    return "" if count is None else f"[{count or ''}]"


def _variable(variable: nodes.Variable) -> str:
    words = [variable.linkage, f".{variable.space}"]
    if variable.align:
        words.append(f".align {variable.align}")
    words += [f".{variable.type}", f"{variable.name}{_count(variable.count)}"]
    if variable.initial:
        words.append(f"= {variable.initial}")
    return " ".join(w for w in words if w) + ";"


def _block(block: nodes.Block, indent: str) -> list[str]:
    lines = [indent + "{"]
    inner = indent + "\t"
    for item in block.items:
        match item:
            case nodes.Block():
                lines.extend(_block(item, inner))
            case nodes.Label():
                lines.append(f"{item.name}:")
            case _:
                lines.append(inner + _statement(item))
    return [*lines, indent + "}"]


def _statement(
    item: nodes.Instruction | nodes.Registers | nodes.Variable | nodes.Directive | nodes.Location,
) -> str:
    match item:
        case nodes.Instruction():
            return print_instruction(item) + ";"
        case nodes.Registers():
            count = "" if item.count is None else f"<{item.count}>"
            return f".reg .{item.type} {item.name}{count};"
        case nodes.Variable():
            return _variable(item)
        case nodes.Directive():
            return item.text + ";"
        case nodes.Location():
            text = f".loc {item.file} {item.row} {item.column}"
            if item.function:
                text += f", function_name {item.function}"
            if item.inlined_at:
                text += f", inlined_at {' '.join(map(str, item.inlined_at))}"
            return text
