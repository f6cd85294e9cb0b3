"""``python -m deepgemm_codegen`` and the ``deepgemm_codegen`` command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> int:
    """Runs the command line; returns its exit code and lets no traceback through."""
    try:
        from deepgemm_codegen.cli.entry import run  # noqa: PLC0415  Ctrl-C counts from here on
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        if sys.argv[1:2] == ["doctor"]:
            return _plain_doctor()
        sys.stderr.write(
            f"error: the Python package {error.name} is missing; install deepgemm_codegen with its"
            " dependencies\n"
        )
        return 3
    return run()


def _plain_doctor() -> int:
    """The doctor's lines where not even the command line's own packages are there."""
    from deepgemm_codegen.doctor import examine, verdict  # noqa: PLC0415

    findings = examine()
    code, words = verdict(findings)
    sys.stdout.write("".join(f"{finding}\n" for finding in findings) + f"verdict: {words}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
