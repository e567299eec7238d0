# hologram/_log.py: the logger "hologram", and HOLOGRAM_LOG
import logging

from hologram import _core

log = logging.getLogger("hologram")


def _configure() -> None:
    level = _core.setting("HOLOGRAM_LOG")
    if level:
        if not log.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("hologram %(levelname)s: %(message)s"))
            log.addHandler(handler)
            log.propagate = False
        log.setLevel(level.upper())


_configure()
