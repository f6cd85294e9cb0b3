from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from deepgemm_codegen.specfile import SpecEntry, SpecFileError, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=["libyaml", "pure"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with either of PyYAML's parsers."""
    if request.param == "pure":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    elif not hasattr(yaml, "CSafeLoader"):
        pytest.skip("PyYAML without libyaml")
    return str(request.param)


@pytest.fixture
def entries(tmp_path: Path) -> Callable[[str | bytes], list[SpecEntry]]:
    """Reads a text as the file ``k.yaml``."""

    def read_text(text: str | bytes) -> list[SpecEntry]:
        data = text.encode() if isinstance(text, str) else text
        (tmp_path / "k.yaml").write_bytes(data)
        return read("k.yaml")

    return read_text


@pytest.fixture
def problems(
    entries: Callable[[str | bytes], list[SpecEntry]],
) -> Callable[[str | bytes], list[str]]:
    """The problems of a text, each as ``line:column: message``; empty when it is right."""

    def collect(text: str | bytes) -> list[str]:
        try:
            entries(text)
        except SpecFileError as error:
            return [problem.summary.removeprefix("k.yaml:") for problem in error.problems]
        return []

    return collect
