# hologram/serving/__init__.py: archives behind HTTP
"""`application(model)` is the ASGI application that ``hologram serve`` runs; json_values and arrays are what other frameworks need.

The application needs the extra `serve`: FastAPI, uvicorn and prometheus_client. The rest needs NumPy alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Union

from hologram.serving.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from hologram.archive import Archive

__all__ = ["Settings", "application"]


def application(model: Union[str, os.PathLike[str], Archive], **settings: Any) -> FastAPI:
    """The methods of an archive as an ASGI application.

    model: an open archive, or the path of one. settings: fields of Settings.

    Raises:
        ImportError: a package of the extra `serve` is missing; the message names both.
        TypeError, ValueError: a setting that is none, or has a value that it cannot have; and what `hologram.load` raises.
    """
    asked = Settings(**settings)
    try:
        from hologram.serving.app import make
    except ImportError as error:
        raise ImportError(
            f"serving needs the package {error.name}, which the extra `serve` brings: pip install 'hologram-compute[serve]'",
            name=error.name,
        ) from None
    return make(model, asked)
