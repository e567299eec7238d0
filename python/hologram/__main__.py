"""``python -m hologram``: the same as the command ``hologram``."""

from hologram.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
