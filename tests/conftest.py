"""Options and helpers that every test folder shares."""

from __future__ import annotations

import pytest
from hypothesis import settings

from deepgemm_codegen.parallel import one_thread_each

one_thread_each()  # before a test imports numpy, whose threads wait longer than such products take

# The same examples in every run, so that a change is judged by what it changes; .ci/full searches
# with `--hypothesis-profile searching`.
settings.register_profile("searching", settings.get_profile("default"))
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files anew instead of comparing with them",
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written anew."""
    return bool(request.config.getoption("--update-golden"))
