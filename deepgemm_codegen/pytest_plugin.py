"""``pytest --deepgemm configs/kernels``: a test item a kernel.

Pytest imports this module in every run of an environment that has the package, so it imports
nothing until the option is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from deepgemm_codegen.verification import Job, Options, Outcome

_ENDINGS = (".yaml", ".yml")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("deepgemm", "kernels of deepgemm_codegen")
    group.addoption(
        "--deepgemm",
        action="append",
        metavar="PATH",
        help="judge every kernel of a kernel file, or of a folder of them; without other paths"
        " nothing else is collected",
    )
    group.addoption(
        "--deepgemm-on",
        choices=("auto", "gpu", "emulator"),
        default="auto",
        help="where kernels run [default: auto]",
    )
    group.addoption(
        "--deepgemm-checks", metavar="KINDS", help="as verify --checks: exact,random,races ..."
    )
    group.addoption(
        "--deepgemm-seed", type=int, default=0, help="of inputs and sampled blocks [default: 0]"
    )
    group.addoption(
        "--deepgemm-effort",
        type=float,
        default=1.0,
        help="factor on the number of blocks that the emulator runs [default: 1]",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Adds the given paths to what is collected."""
    paths = config.getoption("deepgemm")
    if not paths:
        return
    _options(config)
    given = config.args_source is pytest.Config.ArgsSource.ARGS
    config.args[:] = [*(config.args if given else ()), *paths]


def _options(config: pytest.Config) -> Options:
    """How kernels are judged.

    Raises:
        UsageError: an unknown kind of check, or a number out of bounds.
    """
    from deepgemm_codegen.checks import DEFAULT_CHECKS, parse_checks  # noqa: PLC0415
    from deepgemm_codegen.errors import InputError  # noqa: PLC0415
    from deepgemm_codegen.verification import Options  # noqa: PLC0415

    option = config.getoption
    words = option("--deepgemm-checks")
    try:
        return Options(
            on=option("--deepgemm-on"),
            seed=option("--deepgemm-seed"),
            effort=option("--deepgemm-effort"),
            checks=DEFAULT_CHECKS if words is None else parse_checks(words, "--deepgemm-checks"),
        )
    except InputError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A kernel file that was asked for, or that lies in a folder that was."""
    paths = parent.config.getoption("deepgemm")
    if not paths or file_path.suffix not in _ENDINGS:
        return None
    base = parent.config.invocation_params.dir
    wanted = [(base / path).resolve() for path in paths]
    here = file_path.resolve()
    if here not in wanted and not any(path in here.parents for path in wanted):
        return None
    file: pytest.Collector = KernelFile.from_parent(parent, path=file_path)
    return file


class KernelFile(pytest.File):
    """One kernel file."""

    def collect(self) -> Iterator[KernelItem]:
        """Its kernels.

        Raises:
            CollectError: something is wrong with the file; every problem is named.
        """
        from deepgemm_codegen.spec.naming import kernel_name  # noqa: PLC0415  see the module's text
        from deepgemm_codegen.specfile import SpecFileError, read  # noqa: PLC0415
        from deepgemm_codegen.verification import Job  # noqa: PLC0415

        try:
            entries = read(_relative(self.path, self.config))
        except SpecFileError as error:
            raise self.CollectError(str(error)) from error
        for entry in entries:
            job = Job(entry.spec, entry.file, entry.line, entry.column, entry.require)
            yield KernelItem.from_parent(self, name=kernel_name(entry.spec), job=job)


def _relative(path: Path, config: pytest.Config) -> str:
    """The path as messages and reports should have it."""
    try:
        return str(path.relative_to(config.invocation_params.dir))
    except ValueError:
        return str(path)


class KernelFailedError(Exception):
    """A kernel did not pass; holds the outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.name)
        self.outcome = outcome


class KernelItem(pytest.Item):
    """One kernel."""

    def __init__(self, *, job: Job, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job = job

    def runtest(self) -> None:
        """Builds and judges it.

        Raises:
            KernelFailedError: it is wrong, misses a requirement, or cannot be judged.
        """
        from deepgemm_codegen.harness import format_verdict  # noqa: PLC0415
        from deepgemm_codegen.verification import judge  # noqa: PLC0415

        outcome = judge(self.job, _options(self.config))
        if outcome.verdict is not None:
            self.user_properties.append(("judged_on", outcome.verdict.where))
        if outcome.status != "passed" or outcome.verdict is None:
            raise KernelFailedError(outcome)
        text = "\n".join(format_verdict(outcome.verdict))
        self.add_report_section("call", "verdict", text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The verdict; a traceback would tell nothing of a kernel."""
        error = excinfo.value
        if not isinstance(error, KernelFailedError):
            return super().repr_failure(excinfo, style)
        if error.outcome.verdict is None:
            return f"{self.job.where}: {error.outcome.message}"
        from deepgemm_codegen.harness import format_verdict  # noqa: PLC0415

        return "\n".join([f"{self.job.where}:", *format_verdict(error.outcome.verdict)])

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where it is asked for."""
        return self.path, self.job.line - 1, f"kernel {self.name}"
