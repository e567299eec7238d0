#!/usr/bin/env python3
# tests/capi/docs.py: the C and C++ programs of docs/c-api.md compile without warnings and run
"""usage: docs.py PAGE INCLUDE LIBRARY CC CXX"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path


def main():
    page, include, library, cc, cxx = sys.argv[1:6]
    programs = re.findall(r"^```(c|cpp)\n(.*?)^```", Path(page).read_text(), re.M | re.S)
    assert len(programs) >= 4, "the page has lost its programs"
    with tempfile.TemporaryDirectory() as folder:
        for number, (language, code) in enumerate(programs):
            source = Path(folder) / f"program{number}.{language}"
            source.write_text(code)
            compiler = [cc, "-std=c99", "-pedantic"] if language == "c" else [cxx, "-std=c++20"]
            binary = source.with_suffix("")
            subprocess.run([*compiler, "-Wall", "-Wextra", "-Werror", f"-I{include}", source, library,
                            f"-Wl,-rpath,{Path(library).parent}", "-o", binary], check=True)
            done = subprocess.run([binary], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, f"program {number}: {done.stderr}"
            for expected in re.findall(r"printf.*(?://|/\*) ([\d .]+?)(?: \*/)?$", code, re.M):
                assert expected.strip() in done.stdout, f"program {number}: {expected!r} not in {done.stdout!r}"
    print(f"docs: {len(programs)} programs")


if __name__ == "__main__":
    main()
