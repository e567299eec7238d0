# hologram/info.py: python -m hologram.info: what a bug report needs
"""Prints what `hologram info` prints: version, backends, processor, caches."""

import sys

if __name__ == "__main__":
    from hologram.cli import main

    sys.exit(main(["info", *sys.argv[1:]]))
