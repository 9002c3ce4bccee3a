#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom: the rooms of docs/architecture.md as an allow-list, checked over every header and source.

  check_includes.py [ROOT]      prints each forbidden include as file:line and exits 1 if there is one
  check_includes.py --self-test checks that forbidden includes are seen and allowed ones are not

An #include "..." must name a file of this repository from its root; an #include <...> is the standard library, POSIX or
a library of LIBRARIES. A library that is not in the table is refused: add it here, with the rooms that may see it."""

import pathlib
import re
import sys
import tempfile

# room: (rooms it may include besides itself, libraries it may include). The longest folder wins, so passes/sequence is in
# passes and core/dist/c10d is a room of its own.
ROOMS = {
    "core/base": ((), ("xxhash", "expected")),
    "core/ir": (("core/base",), ("boost-container",)),
    "core/io": (("core/base", "core/ir"), ("boost-container", "simdjson")),
    "core/hang": (("core/base", "core/io"), ()),
    "core/dist": (("core/base", "core/ir"), ()),
    "core/dist/c10d": (("core/base", "core/ir", "core/dist"), ("torch", "gloo")),
    "core/torch": (("core/base", "core/ir", "core/io", "core/dist"), ("torch",)),
    "core/gpu": (("core/base", "core/ir", "core/dist", "core/torch"), ("torch", "cuda", "nccl", "cupti", "nvtx")),
    "core/session": (
        ("core/base", "core/ir", "core/io", "core/hang", "core/dist", "core/dist/c10d", "core/torch", "passes", "passes/memory",
         "profiler", "profiler/record"),
        ("json", "toml"),
    ),
    "passes": (("core/base", "core/ir", "passes/memory"), ("boost-container",)),
    "passes/memory": (("core/base", "core/ir", "passes"), ("boost-container", "boost-graph")),
    "profiler": (("core/base", "core/ir"), ("simdjson", "json", "sqlite", "zlib")),
    "profiler/record": (("core/base", "core/ir", "profiler"), ("json", "cupti", "nvtx")),
    "ui/model": (("core/base", "core/ir", "core/session", "passes", "passes/memory", "profiler"), ()),
    "ui/qt": (("core/base", "ui/model"), ("qt",)),
    "ui/imgui": (("core/base", "ui/model"), ("imgui", "qt")),
    "app": (("core/base", "core/ir", "core/io", "core/hang", "core/session", "passes", "passes/memory", "profiler"), ("cli11", "json", "edit")),
    "app/gui": (("core/base", "core/session", "ui/model", "ui/qt", "ui/imgui", "app"), ("cli11", "qt", "imgui")),
    "tests": (None, None),  # None: everything
}

LIBRARIES = {  # the first pattern that matches names the library; anything else in <...> is unknown
    "torch": r"(torch|ATen|c10|caffe2)/",
    "gloo": r"gloo/",
    "nccl": r"nccl",
    "cupti": r"(cupti|generated_cuda)",
    "nvtx": r"nvtx3/",
    "cuda": r"(cuda|driver_types|vector_types)",
    "qt": r"Q[A-Z]",
    "imgui": r"(imgui|implot)",
    "simdjson": r"simdjson",
    "xxhash": r"xxhash",
    "expected": r"tl/expected",
    "json": r"nlohmann/",
    "toml": r"toml\+\+/",
    "cli11": r"CLI/",
    "edit": r"editline/",
    "sqlite": r"sqlite3",
    "zlib": r"zlib\.h",
    "boost-graph": r"boost/(graph|property_map|range)/",
    "boost-container": r"boost/container/",
    "gtest": r"(gtest|gmock)/",
    "benchmark": r"benchmark/",
}
# Libraries that may not even come along behind another room's header.
HIDDEN = ("torch", "gloo", "nccl", "cupti", "cuda", "qt", "imgui", "simdjson", "boost-graph")
SYSTEM = re.compile(
    r"([a-z_0-9]+|sys/[a-z_]+\.h|linux/[a-z_]+\.h|netinet/[a-z_]+\.h|arpa/inet\.h|net/if\.h"
    r"|(cxxabi|dirent|dlfcn|elf|endian|errno|fcntl|ifaddrs|immintrin|link|malloc|netdb|poll|pthread|pwd|sched|signal|spawn"
    r"|termios|unistd)\.h)"
)
INCLUDE = re.compile(r'^\s*#\s*(?:include|import)\s*([<"])([^>"]+)[>"]', re.M)
SOURCES = (".h", ".hpp", ".cpp", ".cc")
FOLDERS = ("core", "passes", "profiler", "ui", "app", "tests")


def room_of(path):
    """The room that a path, from the root, lies in; None outside of all."""
    parts = path.split("/")[:-1]
    # app/gui_main.cpp is the window's main, and belongs to app/gui.
    if path.startswith("app/gui"):
        return "app/gui"
    for length in range(len(parts), 0, -1):
        if "/".join(parts[:length]) in ROOMS:
            return "/".join(parts[:length])
    return None


def library_of(target):
    return next((name for name, pattern in LIBRARIES.items() if re.match(pattern, target)), None)


def problem(path, bracket, target, exists):
    """Why the file `path` may not include `target`, or None. `exists` says whether a path of the repository is there."""
    room = room_of(path)
    if room is None:
        return "lies in no room of the table"
    rooms, libraries = ROOMS[room]
    if bracket == '"' or room_of(target) is not None:
        if not exists(target):
            return f'"{target}" is no file, seen from the root of the repository'
        other = room_of(target)
        if rooms is None or other == room or other in rooms:
            return None
        return f"{room} may not include {other} ({target})"
    library = library_of(target)
    if library is None:
        if SYSTEM.fullmatch(target):
            return None
        return f"<{target}> is of no library in the table"
    if libraries is None or library in libraries:
        return None
    return f"{room} may not include {library} (<{target}>)"


def check(root):
    """(number of files, complaints): direct includes first, then libraries that leak through another room's header."""
    includes = {}  # path: [(line, bracket, target)]
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in SOURCES:
                text = file.read_text(encoding="utf-8")
                includes[file.relative_to(root).as_posix()] = [
                    (text.count("\n", 0, match.start(1)) + 1, match[1], match[2]) for match in INCLUDE.finditer(text)
                ]
    found = []
    for path, lines in includes.items():
        for line, bracket, target in lines:
            why = problem(path, bracket, target, lambda name: (root / name).is_file())
            if why:
                found.append(f"{path}:{line}: {why}")

    def leaks(path, libraries, seen):
        """Libraries not in `libraries` that the header `path` brings along, as "library (through header)"."""
        if path in seen:
            return
        seen.add(path)
        for _, bracket, target in includes.get(path, ()):
            library = library_of(target) if bracket == "<" else None
            if library in HIDDEN and library not in libraries:
                yield f"{library} (through {path})"
            yield from leaks(target, libraries, seen)

    for path, lines in includes.items():
        room = room_of(path)
        libraries = ROOMS[room][1] if room else None
        if libraries is None:
            continue
        for line, _, target in lines:
            for leak in leaks(target, libraries, set()):
                found.append(f"{path}:{line}: {room} may not see {leak}")
    return len(includes), found


def self_test():
    forbidden = [
        ("core/ir/graph.h", "<", "torch/torch.h"),
        ("core/ir/graph.h", "<", "simdjson.h"),
        ("core/ir/graph.h", '"', "core/io/archive.h"),
        ("core/base/error.h", '"', "core/ir/graph.h"),
        ("core/session/session.cpp", "<", "ATen/core/Tensor.h"),
        ("core/dist/launcher.cpp", "<", "c10/core/Device.h"),
        ("core/torch/executor.cpp", '"', "core/session/session.h"),
        ("core/torch/executor.cpp", "<", "nccl.h"),
        ("passes/sequence/plan.cpp", "<", "boost/graph/push_relabel_max_flow.hpp"),
        ("passes/manager.cpp", '"', "profiler/store/store.h"),
        ("profiler/store/store.cpp", '"', "passes/pass.h"),
        ("profiler/store/store.cpp", "<", "cupti.h"),
        ("ui/model/graph_view.h", "<", "QWidget"),
        ("ui/qt/window.cpp", "<", "imgui.h"),
        ("app/run_command.cpp", "<", "torch/torch.h"),
        ("app/run_command.cpp", '"', "tests/support/temp.h"),
        ("core/base/error.h", "<", "fmt/format.h"),
        ("core/base/error.h", '"', "missing.h"),
        ("stray/file.h", "<", "vector"),
    ]
    allowed = [
        ("core/ir/graph.h", "<", "vector"),
        ("core/ir/graph.h", '"', "core/base/error.h"),
        ("core/ir/graph.h", "<", "boost/container/small_vector.hpp"),
        ("core/io/archive.cpp", "<", "simdjson.h"),
        ("core/io/archive.cpp", "<", "sys/mman.h"),
        ("core/dist/c10d/gloo.cpp", "<", "torch/csrc/distributed/c10d/ProcessGroupGloo.hpp"),
        ("core/dist/c10d/gloo.cpp", '"', "core/dist/collectives.h"),
        ("core/torch/executor.cpp", "<", "ATen/core/Tensor.h"),
        ("passes/memory/min_cut.cpp", "<", "boost/graph/push_relabel_max_flow.hpp"),
        ("passes/sequence/plan.cpp", '"', "passes/pass.h"),
        ("profiler/record/cupti_source.cpp", "<", "cupti.h"),
        ("app/gui_main.cpp", "<", "QApplication"),
        ("app/gui/main.cpp", '"', "ui/qt/window.h"),
        ("tests/unit/torch/executor_test.cpp", "<", "torch/torch.h"),
    ]
    exists = lambda target: target != "missing.h"
    wrong = [f"not seen: {case}" for case in forbidden if problem(*case, exists) is None]
    wrong += [f"refused: {case}: {problem(*case, exists)}" for case in allowed if problem(*case, exists) is not None]
    with tempfile.TemporaryDirectory() as folder:  # and the reading of files
        root = pathlib.Path(folder)
        for path, text in {
            "core/ir/graph.h": "#include <vector>\n#  include <torch/torch.h>\n// #include <simdjson.h>\n",
            "core/torch/bag.h": '#include "core/torch/bag_impl.h"\n',
            "core/torch/bag_impl.h": "#include <ATen/core/Tensor.h>\n",
            "core/session/run.cpp": '\n#include "core/torch/bag.h"\n',
        }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        expected = [
            "core/ir/graph.h:2: core/ir may not include torch (<torch/torch.h>)",
            "core/session/run.cpp:2: core/session may not see torch (through core/torch/bag_impl.h)",
        ]
        if check(root) != (4, expected):
            wrong.append(f"in files: {check(root)}")
    return wrong


def main():
    if sys.argv[1:] == ["--self-test"]:
        wrong = self_test()
        print("\n".join(wrong) or "the table refuses and allows what it should")
        return 1 if wrong else 0
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    files, found = check(root)
    print("\n".join(found) or f"{files} files, no forbidden include")
    return 1 if found or files == 0 else 0


sys.exit(main())
