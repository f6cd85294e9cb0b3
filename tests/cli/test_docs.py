"""``docs/cli.md`` shows the help texts as they are; ``--update-golden`` writes them anew."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.arch import known_architectures
from deepgemm_codegen.cli.app import build_app
from deepgemm_codegen.cli.flags import flag_of
from deepgemm_codegen.dtypes import DTYPES
from deepgemm_codegen.epilogue import STEPS
from deepgemm_codegen.spec.overrides import OVERRIDES
from deepgemm_codegen.spec.text import FIELDS

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

KERNEL_FLAGS = re.compile(r"\nProblem:\n.*?(?=\nOther:\n)", re.DOTALL)
"""What every command that takes kernels has alike: the page shows it once."""

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
BLOCK = re.compile(r"<!-- help ?(\w*) -->\n(?:\n```text\n.*?```\n)?", re.DOTALL)


def test_the_help_texts(cli: Cli, monkeypatch: pytest.MonkeyPatch, *, update_golden: bool) -> None:
    monkeypatch.setenv("COLUMNS", "102")

    def block(match: re.Match[str]) -> str:
        help_text = cli(*filter(None, [match[1]]), "--help").out
        if match[1]:
            help_text = KERNEL_FLAGS.sub("\nProblem, Target, Decisions: as above\n", help_text)
        return f"<!-- help{' ' * bool(match[1])}{match[1]} -->\n\n```text\n{help_text}```\n"

    page = PAGE.read_text(encoding="utf-8")
    wanted = BLOCK.sub(block, page)
    if update_golden:
        PAGE.write_text(wanted, encoding="utf-8")
    assert page == wanted or update_golden, "run pytest with --update-golden"


README = PAGE.parents[1] / "README.md"
EXCERPT = re.compile(
    r'<!-- shows (\d+) lines (?:from "([^"]*)" )?of: ([^\n]*) -->\n'
    r"(?:\n```(?:text|cuda)\n.*?\n```\n)?",
    re.DOTALL,
)


def test_the_excerpts_of_the_readme(cli: Cli, *, update_golden: bool) -> None:
    def block(match: re.Match[str]) -> str:
        result = cli(*shlex.split(match[3]))
        assert (result.code, result.err) == (0, "")
        lines = result.out.splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith(match[2] or ""))
        shown = "\n".join(lines[first : first + int(match[1])])
        kind = "cuda" if "--emit=cu" in match[3] else "text"
        return f"{match[0].partition(' -->')[0]} -->\n\n```{kind}\n{shown}\n```\n"

    text = README.read_text(encoding="utf-8")
    wanted = EXCERPT.sub(block, text)
    assert wanted.count("<!-- shows") == 2
    if update_golden:
        README.write_text(wanted, encoding="utf-8")
    assert text == wanted or update_golden, "run pytest with --update-golden"


def test_every_command_has_a_section() -> None:
    page = PAGE.read_text(encoding="utf-8")
    commands = list(build_app().commands or build_app().list_commands(None))  # type: ignore[arg-type]
    assert [name for name in commands if f"\n## {name}\n" not in page] == []
    assert set(BLOCK.findall(page)) == {"", *commands}
    assert all(f"\n  {flag_of(name)} " in page for name in (*FIELDS, *OVERRIDES))


@pytest.mark.parametrize("page", [README, PAGE], ids=lambda page: str(page.name))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_names_everything_supported() -> None:
    text = README.read_text(encoding="utf-8")
    words = (*known_architectures(), *DTYPES, *STEPS, *OVERRIDES)
    assert [word for word in words if not re.search(rf"\b{word}\b", text)] == [], (
        "the table 'What is supported' of README.md lists each"
    )
