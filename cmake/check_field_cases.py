#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/field-cases.md against the tests: what it says of an id is so.

Each id is the beginning of a test's name (PT-04: PT_04_..., several as PT_04_PT_06_...) in one of the files that its rows name, or a row says why it
"cannot occur". The files exist, and whatever file has a test of that name is named. Where the collection of field cases lies beside the repository (../shared/field-cases.md), all of its
sections A to G and I have rows.
"""
import re
import sys
from pathlib import Path

ID = re.compile(r"\b([A-Z]{2})-(\d\d)\b")
TEST = re.compile(r"\bTEST(?:_F|_P)?\(\w+,\s*((?:[A-Z]{2}_\d\d_)+)")
FILE = re.compile(r"(?:tests/(?:\w+/)*)?\w+_test\.cpp")


def tests(root):
    """id -> files that have a test of that name."""
    found = {}
    for file in sorted((root / "tests").rglob("*_test.cpp")):
        for name in TEST.findall(file.read_text()):
            for i in re.findall(r"[A-Z]{2}_\d\d", name):
                found.setdefault(i.replace("_", "-"), set()).add(file.relative_to(root).as_posix())
    return found


def rowsOf(text):
    """(ids, second cell) of each row."""
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) == 2 and ID.search(cells[0]):
            yield ["-".join(i) for i in ID.findall(cells[0])], cells[1]


def problems(text, found, exists):
    named, excused = {}, set()
    for ids, cell in rowsOf(text):
        files = FILE.findall(cell)
        for f in files:
            if "/" in f and not exists(f):
                yield f"{', '.join(ids)}: there is no {f}"
        for i in ids:
            named.setdefault(i, []).extend(files)
            if "cannot occur" in cell:
                excused.add(i)
    for i, files in named.items():
        where = found.get(i, set())
        if i not in excused and not any(w.endswith("/" + f) or w == f for w in where for f in files):
            yield f"{i}: no test {i.replace('-', '_')}_... in {', '.join(files) or 'any file that the row names'}"
    for i in sorted(found):
        for w in sorted(found[i]):
            if not any(w.endswith("/" + f) or w == f for f in named.get(i, [])):
                yield f"{i}: {w} has a test of this name, docs/field-cases.md does not say so"


def missing(collection, text):
    """Ids of the sections A to G and I of the collection that have no row."""
    listed = {i for ids, _ in rowsOf(text) for i in ids}
    section = ""
    for line in collection.splitlines():
        if line.startswith("## "):
            section = line[3:4]
        elif line.startswith("| ") and section in "ABCDEFGI" and (i := ID.match(line[2:])):
            if "-".join(i.groups()) not in listed:
                yield f"{'-'.join(i.groups())}: no row"


def selfTest():
    exists = lambda f: f != "tests/gone_test.cpp"
    rows = "| LA-01, LA-02 | tests/process/a_test.cpp |\n| LA-01 | also: tests/x/c_test.cpp |\n| LA-03 | cannot occur: why |\n"
    found = {"LA-01": {"tests/process/a_test.cpp"}, "LA-02": {"tests/process/a_test.cpp"}}
    assert not list(problems(rows, found, exists))
    assert list(problems(rows, {"LA-01": {"tests/process/b_test.cpp"}, "LA-02": found["LA-02"]}, exists))  # in another file
    assert list(problems(rows, {"LA-01": found["LA-01"]}, exists))  # no test
    assert list(problems(rows, {**found, "LA-09": {"tests/process/a_test.cpp"}}, exists))  # no row
    assert list(problems("| LA-01 | tests/gone_test.cpp |", {"LA-01": {"tests/gone_test.cpp"}}, exists))
    collection = "## D. x\n| AC-01 ★ | a |\n## H. y\n| GV-01 | b |\n## I. z\n| LA-01 | c |\n"
    assert list(missing(collection, rows)) == ["AC-01: no row"]


def main():
    if sys.argv[1:] == ["--self-test"]:
        return selfTest()
    root = Path(sys.argv[1])
    text = (root / "docs/field-cases.md").read_text()
    wrong = list(problems(text, tests(root), lambda f: (root / f).exists()))
    collection = root.parent / "shared/field-cases.md"
    if collection.exists():
        wrong += missing(collection.read_text(), text)
    for line in wrong:
        print(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
