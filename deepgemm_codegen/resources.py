"""Where the data files that travel with the package lie."""

from __future__ import annotations

from pathlib import Path

__all__ = ["data_folder"]

_PACKAGE = Path(__file__).resolve().parent


def data_folder(name: str) -> Path:
    """Folder ``templates`` or ``configs``: inside an installed wheel, or beside the package.

    A wheel carries them in ``_data``; an editable install and a plain checkout keep them at the
    top of the repository.
    """
    packed = _PACKAGE / "_data" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name
