"""The documentation: what follows from the code is fresh, links lead somewhere, commands run."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

import deepgemm_codegen
from deepgemm_codegen.arch_facts import FACTS
from deepgemm_codegen.cli.entry import run
from deepgemm_codegen.decide.families import FAMILIES
from deepgemm_codegen.epilogue import STEPS
from deepgemm_codegen.specfile.fields import HELP
from tests.emulator.forms import FORMS

ROOT = Path(deepgemm_codegen.__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs_generate"] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    pages: dict[str, str] = generator().pages()
    return pages


@pytest.mark.parametrize("name", ["reference.md", "decision_tree.svg"])
def test_what_follows_from_the_code_is_fresh(name: str, made: dict[str, str]) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == made[name], (
        "write it anew with `python docs/generate.py`"
    )


def test_the_reference_has_every_field_step_and_fact(made: dict[str, str]) -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", made["reference.md"], re.MULTILINE))
    assert rows == {*HELP, *STEPS, *FACTS}


def test_the_table_of_steps_has_every_step() -> None:
    page = (DOCS / "yaml.md").read_text(encoding="utf-8")
    table = page[page.index("| step | options |") :].split("\n\n")[0]
    first_cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    assert {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)} == {*STEPS}, (
        "a row each in the table of docs/yaml.md"
    )


def test_the_count_of_recorded_forms_is_told_as_it_is() -> None:
    page = (DOCS / "emulator.md").read_text(encoding="utf-8")
    told = re.findall(r"with (\d+) instruction forms|all (\d+) agree", page)
    assert {int(number) for pair in told for number in pair if number} == {len(FORMS)}


def test_the_picture_shows_every_family(made: dict[str, str]) -> None:
    texts = [node.text or "" for node in ET.fromstring(made["decision_tree.svg"]).iter()]
    assert [text for text in texts if text in {f.name for f in FAMILIES}] == [
        family.name for family in FAMILIES
    ]
    assert texts.count("[D03] tile") >= 2
    assert max(map(len, texts)) < 2000


def _pages_of(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    items = nav if isinstance(nav, list) else nav.values()
    return [page for item in items for page in _pages_of(item)]


def test_the_site_has_every_page() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(_pages_of(config["nav"])) == [path.relative_to(DOCS).as_posix() for path in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.name))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.is_file(), link
        assert target.is_relative_to(DOCS), f"{link} leads out of the site"
        if anchor:
            heads = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w]+", "-", head.lower()).strip("-") for head in heads]


COMMANDS = re.findall(
    r"<!-- runs -->\n\n```sh\ndeepgemm_codegen (.*?)\n```",
    (DOCS / "tutorial.md").read_text(encoding="utf-8"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_tutorials_commands_run(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DGEMM_CACHE_DIR", str(tmp_path / "cache"))
    assert run(shlex.split(command)) == 0, capfd.readouterr().err


def test_the_tutorial_shows_the_examples_kernel_file() -> None:
    assert len(COMMANDS) == 5
    (shown,) = re.findall(
        r"```yaml\n(.*?)```", (DOCS / "tutorial.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert (ROOT / "examples" / "linear.yaml").read_text(encoding="utf-8").endswith(shown)


@pytest.mark.full
@pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="mkdocs-material is not installed"
)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("mkdocs")
    words = [str(program), "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    env = {"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    pages = {path.name for path in (tmp_path / "site").iterdir()}
    assert {page.stem for page in PAGES} - {"index"} <= pages
    shutil.rmtree(tmp_path / "site")


def test_every_script_that_measures_is_listed() -> None:
    folder = ROOT / "benchmarks"
    page = (folder / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(\w+\.(?:py|cu|yaml))`", page))
    assert listed == {p.name for p in folder.iterdir() if p.suffix in (".py", ".cu", ".yaml")}


def test_every_folder_of_tests_is_listed() -> None:
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")}
    page = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| `.*?\|", page, re.MULTILINE)))
    assert folders <= set(listed)
