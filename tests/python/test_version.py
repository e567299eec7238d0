# tests/python/test_version.py: the package, its native part and the build agree on the version
import re
from importlib.metadata import version as distribution_version
from pathlib import Path

import hologram


def test_version_is_the_one_in_cmake():
    cmake = (Path(__file__).parents[2] / "CMakeLists.txt").read_text(encoding="utf-8")
    expected = re.search(r"project\(hologram VERSION (\d+\.\d+\.\d+)", cmake).group(1)
    assert hologram.__version__ == hologram.version() == expected
    assert distribution_version("hologram-compute") == expected
