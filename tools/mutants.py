#!/usr/bin/env python3
# tools/mutants.py: which faults, planted in source, do the tests find, and which tests find them?
"""usage, in a copy of the tree with a build of its own:
  mutants.py draw FAULTS [--seed N] [--count N] PATH...   draws faults of the Python files and .cpp below PATH
  mutants.py build FAULTS BUILD [TARGET...]               plants those of C++ and builds; what does not compile goes
  mutants.py reach FAULTS TESTS TEST...                   which tests reach which faults; TEST: a GoogleTest program, a file for pytest
  mutants.py kill FAULTS TESTS FOUND [--budget S]         with each fault alone, runs tests that reach it, quickest first, until one fails
  mutants.py tell FAULTS FOUND [BEFORE]                   what was found, and what BEFORE found beyond it

A fault is a line with a comparison turned, a constant off by one, a negation dropped, operands swapped, `and` for `or`, or a
statement left out. All of them are in one build, and in modules as they are imported: `if (at(17)) {mutated} else {original}`,
where the environment's MUTANT is the one that acts. A failure, a crash and thrice the processor time are finds. FAULTS names
text, not places, so that `build` plants it in a later tree too. TESTS and FOUND are lines of JSON; what they hold is not run again.
"""

import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from faults import ROOM, Reached, by_file, draw, hook, planted_cpp


def read(path):
    return json.loads(Path(path).read_text()) if Path(path).exists() else []


def drawn(options):
    Path(options.faults).write_text(json.dumps(draw(read(options.faults), options.rest, options.count, options.seed), indent=1))


def build(options):
    """Files that hold faults are written anew from git's; a fault before each line that the compiler complains of goes."""
    if not Path("src/hologram_mutants.h").exists():
        shutil.copy(Path(__file__).with_name("hologram_mutants.h"), "src")
    while True:
        faults, kept = read(options.faults), set()
        changed = subprocess.run(["git", "diff", "--name-only"], capture_output=True, text=True).stdout.split()
        for file, those in {**dict.fromkeys(changed, []), **by_file(faults, ".cpp")}.items():
            original = subprocess.run(["git", "show", f"HEAD:{file}"], capture_output=True, text=True).stdout
            text, done = planted_cpp(original, those)
            kept |= done
            if original and Path(file).read_text() != text:
                Path(file).write_text(text)
        command = ["cmake", "--build", options.rest[0], "-j2", "--target", *options.rest[1:], "--", "-k0"]
        made = subprocess.run(command, capture_output=True, text=True)
        for file, line in set(re.findall(r"((?:src|python)/[\w/.-]+\.cpp):(\d+):\d+: error", made.stdout)):
            before = "\n".join(Path(file).read_text().split("\n")[: int(line)])
            kept -= {int(i) for i in re.findall(r"hologram_mutants::at\((\d+)\)", before)[-1:]}
        gone = [f["id"] for f in faults if f["file"].endswith(".cpp") and f["id"] not in kept]
        print(f"{len(faults)} faults, {len(gone)} do not compile or have no place: {gone}", flush=True)
        if not gone:
            sys.exit(made.stdout[-3000:] if made.returncode else 0)
        Path(options.faults).write_text(json.dumps([f for f in faults if f["id"] not in gone], indent=1))


def plugin(log):
    """pytest's: a line for each test, with the processor time that it took and what it reached."""
    import pytest

    class Log:
        reached = Reached()

        def pytest_collection_finish(self, session):
            self.imported = self.reached.take()

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_protocol(self, item, nextitem):
            self.reached.take()
            failed, start = item.session.testsfailed, sum(os.times()[:4])
            yield
            row = {"test": item.nodeid, "ok": item.session.testsfailed == failed, "seconds": sum(os.times()[:4]) - start}
            with open(log, "a") as file:
                file.write(json.dumps({**row, "reached": sorted({*self.reached.take(), *self.imported})}) + "\n")

    return Log()


most_pages = (8 << 30) // resource.getpagesize()  # of memory: a fault may ask for more and more of it


def run(tests, fault=-1, first=True, log=None, seconds=300):
    """Runs tests of one program, or of pytest, in a process of its own: (whether they pass, text, processor seconds, what they reached)."""
    folder = tempfile.mkdtemp(prefix="mutants-")
    out, reached = Path(folder, "out"), Path(folder, "reached")
    reached.write_bytes(bytes(ROOM))
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 5))
        os.environ.update(MUTANT=str(fault), MUTANTS_REACHED=str(reached), HOLOGRAM_CACHE_DIR=folder, TMPDIR=folder)
        tempfile.tempdir = folder
        for stream in (1, 2):
            os.dup2(os.open(out, os.O_CREAT | os.O_WRONLY | os.O_APPEND), stream)
        if ".py" in tests[0]:
            import pytest

            words = ["-q", "-n0", "-rf", "-pno:cacheprovider", "--tb=no", *(["-x"] if first else []), *tests]
            code = pytest.main(words, [plugin(log)] if log else [])
            sys.stdout.flush()
            os._exit(code)
        program = tests[0].split(":")[0]
        names = ":".join(t.split(":", 1)[1] for t in tests)
        os.execv(program, [program, f"--gtest_filter={names}", *(["--gtest_fail_fast"] if first else [])])
    end, ended, status, pages = time.monotonic() + 20 * seconds + 60, 0, 1, 0
    while not ended and time.monotonic() < end and pages < most_pages:
        time.sleep(0.02)
        with open(f"/proc/{child}/statm") as memory:
            pages = int(memory.read().split()[1])
        ended, status, used = os.wait4(child, os.WNOHANG)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if not ended:
        _, _, used = os.wait4(child, 0)
    text = out.read_text(errors="replace")
    found = [i for i, byte in enumerate(reached.read_bytes()) if byte]
    shutil.rmtree(folder, ignore_errors=True)
    return bool(ended) and status == 0, text, used.ru_utime + used.ru_stime, found


def rows(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()] if Path(path).exists() else []


def together(things, work, jobs):
    """Takes things one by one in processes that have loaded what tests load."""
    reader, writer = os.pipe()
    os.write(writer, b"".join(i.to_bytes(4, "little") for i in range(len(things))))
    os.close(writer)
    children = []
    for _ in range(jobs):
        children.append(os.fork())
        if children[-1] == 0:
            while number := os.read(reader, 4):
                work(things[int.from_bytes(number, "little")])
            os._exit(0)
    for child in children:
        os.waitpid(child, 0)


def reach(options):
    done, tests = {row["test"] for row in rows(options.tests)}, []
    for test in options.rest:
        if test.endswith(".py"):
            tests += [] if any(t.startswith(test) for t in done) else [test]
        else:
            listed = subprocess.run([test, "--gtest_list_tests"], capture_output=True, text=True).stdout.splitlines()
            for line in (line.split("#")[0].rstrip() for line in listed):
                if line.endswith("."):
                    suite = line
                elif line.startswith("  ") and "DISABLED" not in line:
                    tests.append(f"{test}:{suite}{line.strip()}")
    tests = [t for t in tests if t not in done and not (options.skip and re.search(options.skip, t))]

    def work(test):
        if test.endswith(".py"):
            run([test], first=False, log=os.path.abspath(options.tests), seconds=600)
        else:
            passes, _, seconds, found = run([test], seconds=options.budget)
            with open(options.tests, "a") as file:
                file.write(json.dumps({"test": test, "ok": passes, "seconds": round(seconds, 3), "reached": found}) + "\n")

    together(tests, work, options.jobs)


def killers(text, tests):
    """Those that failed; where a program died, the last one begun."""
    program = tests[0].split(":")[0]
    found = [f"{program}:{name}" for name in re.findall(r"^\[  FAILED  \] ([\w./]+)[^\n]*ms\)", text, re.M)]
    found += re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.M)
    begun = re.findall(r"^\[ RUN      \] (\S+)", text, re.M)
    return found or ([f"{program}:{begun[-1]}"] if begun else [f"{tests[0]} or one after it"])


def kill(options):
    faults = {f["id"]: f for f in read(options.faults)}
    tests = [t for t in rows(options.tests) if t["ok"] and not (options.skip and re.search(options.skip, t["test"]))]
    done = {row["id"]: row for row in rows(options.found)}

    def work(i):
        groups, row = {}, {"id": i, "state": "missed", "by": [], "left": 0, "ran": done.get(i, {}).get("ran", [])}
        reaching = sorted((t for t in tests if i in t["reached"]), key=lambda t: t["seconds"])
        for t in reaching:
            if t["test"] not in row["ran"]:
                groups.setdefault(t["test"].split(":")[0], []).append(t)
        area, spent = (*Path(faults[i]["file"]).parts, "")[1], 0
        for group in sorted(groups.values(), key=lambda g: (not g[0]["test"].split(":")[0].endswith(area), sum(t["seconds"] for t in g))):
            kept, cost = [], 0
            for t in group:
                if spent + cost + t["seconds"] <= options.budget:
                    cost += t["seconds"]
                    kept.append(t["test"])
            spent += cost
            row["left"] += len(group) - len(kept)
            if kept and not (result := run(kept, i, cost > 2, seconds=3 * cost + (20 if ".py" in kept[0] else 2)))[0]:
                row |= {"state": "killed", "by": killers(result[1], kept)[:20], "ran": []}
                break
            row["ran"] += kept
        if not reaching:
            row["state"] = "unreached"
        with open(options.found, "a") as file:
            file.write(json.dumps(row) + "\n")

    together([i for i in faults if i not in done or done[i]["state"] != "killed"], work, options.jobs)


def tell(options):
    faults = {f["id"]: f for f in read(options.faults)}
    found, before = ({r["id"]: r for r in rows(path)} for path in (options.found, options.before or os.devnull))
    for i, fault in faults.items():
        row = found.get(i, {"state": "unreached", "by": [], "left": 0})
        if row["state"] != "killed" and (not before or before.get(i, {}).get("state") == "killed"):
            old, new = next((a.strip(), b.strip()) for a, b in zip(fault["old"].split("\n"), fault["new"].split("\n")) if a != b)
            by = ", ".join(before.get(i, {}).get("by", []))
            print(f"{i} {fault['file']}:{fault['line']}: {row['state']} (not run: {row['left']}) {by}\n    {old}\n    {new}")
    for suffix in (".cpp", ".py"):
        states = [found.get(i, {"state": "unreached"})["state"] for i, f in faults.items() if f["file"].endswith(suffix)]
        print(suffix, {s: states.count(s) for s in sorted(set(states))})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skip", help="tests whose names hold this expression are not run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--budget", type=float, default=40, help="processor seconds of tests for a fault, or of one in `reach`")
    for name in ("command", "faults"):
        parser.add_argument(name)
    parser.add_argument("rest", nargs="*")
    options = parser.parse_intermixed_args()
    if options.command in ("reach", "kill", "tell"):
        options.tests = options.found = options.rest.pop(0)
    if options.command == "kill":
        options.found = options.rest.pop(0)
    options.before = options.rest[0] if options.rest else None
    tests = {"reach": options.rest, "kill": [t["test"] for t in rows(options.tests)] if options.command == "kill" else []}
    if any(".py" in test for test in tests.get(options.command, [])):
        import torch._dynamo  # noqa: F401

        hook(options.faults)
    {"draw": drawn, "build": build, "reach": reach, "kill": kill, "tell": tell}[options.command](options)


if __name__ == "__main__":
    main()
