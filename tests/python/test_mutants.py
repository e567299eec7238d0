# tests/python/test_mutants.py: faults planted in a toy are reached, found and told apart
import json
import shutil
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"

# A program that lists and runs its tests as those of GoogleTest do; no test reaches the second function, and none minds `quiet`.
CPP = """#include <cstdio>
#include <cstring>
int sign(int x) {
  const int sign = x > 0 ? 1 : 0;
  if (x < 0) {
    return -1;
  }
  return sign;
}
int spare(int x) {
  return x + 3;
}
int quiet(int x) {
  return x * 0;
}
int main(int, char** words) {
  if (std::strcmp(words[1], "--gtest_list_tests") == 0) return std::puts("Toy.\\n  positive\\n  negative  # GetParam() = -2\\n") < 0;
  const bool positive = std::strstr(words[1], "positive"), negative = std::strstr(words[1], "negative");
  quiet(1);
  if (positive && sign(2) != 1) return std::puts("[  FAILED  ] Toy.positive (0 ms)");
  if (negative && sign(-2) != -1) return std::puts("[  FAILED  ] Toy.negative (0 ms)");
  return 0;
}
"""
def fault(number, file, line, old, new):
    return {"id": number, "file": file, "line": line, "old": old, "new": new}


FAULTS = [
    fault(0, "toy.cpp", 4, "  const int sign = x > 0 ? 1 : 0;", "  const int sign = x > 0 ? 2 : 0;"),
    fault(1, "toy.cpp", 5, "  if (x < 0) {", "  if (x >= 0) {"),
    fault(2, "toy.cpp", 90, "    return -1;", "    ;"),  # it has moved since
    fault(3, "toy.cpp", 11, "  return x + 3;", "  return x - 3;"),
    fault(4, "toy.cpp", 14, "  return x * 0;", "  return x * 1;"),
    fault(5, "toy.cpp", 1, "  return gone;", "  return here;"),
]


def test_which_tests_find_which_faults(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.chdir(tmp_path)
    import faults

    text, done = faults.planted_cpp(CPP, FAULTS)
    assert done == {0, 1, 2, 3, 4}
    Path("toy.cpp").write_text(text)
    Path("faults.json").write_text(json.dumps(FAULTS))
    shutil.copy(TOOLS / "hologram_mutants.h", tmp_path)
    subprocess.run(["g++", "-std=c++20", "-w", "toy.cpp", "-o", "toy"], check=True)
    for command in (["reach", "faults.json", "tests", "./toy"], ["kill", "faults.json", "tests", "found"]):
        subprocess.run([sys.executable, TOOLS / "mutants.py", *command], check=True)
    reached = {row["test"]: row["reached"] for row in map(json.loads, Path("tests").read_text().splitlines())}
    assert reached == {"./toy:Toy.positive": [0, 1, 4], "./toy:Toy.negative": [0, 1, 2, 4]}
    found = {row["id"]: (row["state"], row["by"]) for row in map(json.loads, Path("found").read_text().splitlines())}
    positive, negative = (("killed", [f"./toy:Toy.{name}"]) for name in ("positive", "negative"))
    assert found == {0: positive, 1: positive, 2: negative, 3: ("unreached", []), 4: ("missed", []), 5: ("unreached", [])}
    table = subprocess.run([sys.executable, TOOLS / "mutants.py", "tell", "faults.json", "found"], capture_output=True, text=True).stdout
    assert "3 toy.cpp:11: unreached" in table and "{'killed': 3, 'missed': 1, 'unreached': 2}" in table

