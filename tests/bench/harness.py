# SPDX-License-Identifier: Apache-2.0
"""What every bench stands on: programs that are measured, figures, tables, and the comparison with a stored run.

A bench is one file in benches/ with
  SUMMARY      one line for --list
  NEEDS_TORCH  whether Python must be able to import torch (False where it is not set)
  run(bench)   measures with the Bench it is given, and calls bench.figure() and bench.table()

What is compared between two runs is never a time but a ratio: of things that took turns within one run, or of CPU time and
the yardstick's (programs/yardstick.cpp), which took turns with it."""

import dataclasses
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "0"}


@dataclasses.dataclass
class Figure:
    """One number of a run. `compared` is what two runs are compared by; `tolerance` the largest factor by which it may be
    worse than in the stored run; `limit` holds in every run, on whatever machine (None: no limit)."""

    name: str
    value: float
    unit: str
    compared: float
    better: str = "lower"
    tolerance: float = 1.3
    limit: float | None = None

    def within_limit(self):
        if self.limit is None:
            return True
        return self.value <= self.limit if self.better == "lower" else self.value >= self.limit


@dataclasses.dataclass
class Verdict:
    """A figure of this run beside the stored one: `worse` is above 1 where this run is worse."""

    name: str
    stored: float
    now: float
    worse: float
    tolerance: float

    def fine(self):
        return self.worse <= self.tolerance


def compare(stored, figures, tolerance=None):
    """Verdicts for what both runs hold, the worst first, and the names that only one of them holds. `stored`: the figures
    of a file. `tolerance`: instead of each figure's own."""
    old = {entry["name"]: entry for entry in stored}
    verdicts = []
    for figure in figures:
        if figure.name not in old:
            continue
        before, now = old[figure.name]["compared"], figure.compared
        pair = (now, before) if figure.better == "lower" else (before, now)
        worse = 1.0 if pair[0] == pair[1] else pair[0] / pair[1] if pair[1] else float("inf")
        verdicts.append(Verdict(figure.name, before, now, worse, tolerance or figure.tolerance))
    names = {figure.name for figure in figures}
    return sorted(verdicts, key=lambda verdict: -verdict.worse / verdict.tolerance), sorted(set(old) ^ names)


def table_text(title, header, rows):
    rows = [header, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = [title]
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


class Server:
    """A process that does one piece of work for each line it is sent and answers with words, the first of them the
    nanoseconds it took."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )
        try:
            ready = self.answer() == ["ready"]
        except RuntimeError:
            ready = False
        if not ready:
            self.close()
            raise RuntimeError(f"{name} did not start")

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with exit code {self.process.wait()}")
        return line.split()

    def step(self):
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        return [float(word) for word in self.answer()]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def program(bench, name, *arguments):
    """The objects that it prints, one a line."""
    done = subprocess.run([str(bench.program(name)), *map(str, arguments)], capture_output=True, text=True, env=environment())
    if done.returncode != 0:
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr[-500:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def ratio(plain, with_it):
    """Of two lists of times in pairs: of the medians, of the lower quartiles (a neighbour on the machine can only add), and the
    median of the pairs' ratios with its standard error."""
    pairs = [b / a for a, b in zip(plain, with_it)]
    quartiles = statistics.quantiles(pairs, n=4)
    error = 1.253 * (quartiles[2] - quartiles[0]) / 1.349 / len(pairs) ** 0.5
    fast = [statistics.quantiles(times, n=4)[0] for times in (plain, with_it)]
    return statistics.median(with_it) / statistics.median(plain), fast[1] / fast[0], quartiles[1], error


class Bench:
    """One bench while it runs: where things are, and what it has found."""

    def __init__(self, name, build, zoo, repeats=None):
        self.name, self.build, self.zoo = name, pathlib.Path(build).resolve(), pathlib.Path(zoo).resolve()
        self.repeats = repeats
        self.figures, self.tables, self.left_out, self.details = [], [], [], []
        self.startup = None  # CPU seconds of a process that does nothing

    # --- what there is to measure
    def model(self, file):
        """The path of a model of the zoo, or of resources/samples (where it has no folder); None, and said, where it is
        missing."""
        path = ROOT / "resources/samples" / file if (ROOT / "resources/samples" / file).is_file() else self.zoo / file
        if path.is_file():
            return path
        self.leave_out(f"no {path}")
        return None

    def leave_out(self, why):
        self.left_out.append(why)
        print(f"bench {self.name}: {why}, left out", file=sys.stderr)

    def program(self, name):
        return self.build / ("app/spscope" if name == "spscope" else f"tests/bench/{name}")

    def timed(self, *arguments):
        """Runs the program: what it said, and the wall and CPU seconds of the process and its children."""
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run([str(self.program("spscope")), *map(str, arguments)], capture_output=True, text=True, env=environment())
        taken, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        return done, taken, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    def spscope(self, *arguments):
        """The JSON object of a command, to which are added "process_seconds" (wall time, loading libtorch included) and
        "cpu_seconds" (without what a process costs that does nothing). None, and said, where the exit code is not 0."""
        if self.startup is None:
            self.startup = statistics.median(self.timed("--version")[2] for _ in range(5))
        done, taken, cpu = self.timed(*arguments, "--json", "-")
        if done.returncode != 0:
            self.leave_out(f"{' '.join(map(str, arguments))}: exit code {done.returncode}: {done.stderr[-500:].strip()}")
            return None
        return {**json.loads(done.stdout), "process_seconds": taken, "cpu_seconds": max(cpu - self.startup, 1e-6)}

    def yardstick(self):
        return Server("yardstick", [self.program("yardstick")])

    def against_yardstick(self, measure, repeats, yardstick):
        """Runs measure() -> (seconds, anything) so often, in turns with the yardstick. Gives the median of the seconds, the
        median of the ratios to the yardstick, and the last "anything"; None where measure() gave None."""
        seconds, ratios, last = [], [], None
        for _ in range(self.repeats or repeats):
            # Before and after, so that both see the same neighbours on the machine.
            before = yardstick.step()[0]
            measured = measure()
            if measured is None:
                return None
            after = yardstick.step()[0]
            seconds.append(measured[0])
            ratios.append(measured[0] / ((before + after) / 2e9))
            last = measured[1]
        return statistics.median(seconds), statistics.median(ratios), last

    # --- what was found
    def figure(self, name, value, unit, **more):
        """A figure that two runs are compared by as it is (see Figure), unless `compared` says otherwise."""
        more.setdefault("compared", value)
        self.figures.append(Figure(f"{self.name}/{name}", value, unit, **more))

    def table(self, title, header, rows):
        """Kept for the summary, and shown at once."""
        text = table_text(title, header, rows)
        self.tables.append(text)
        print(f"\n{text}", flush=True)


def first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    except OSError:
        return ""
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else ""


def machine():
    processor = ""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
            break
    memory = next(line for line in pathlib.Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    return {
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": int(memory.split()[1]) * 1024,
        "system": platform.platform(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def versions(build):
    return {
        "spscope": first_line([str(pathlib.Path(build) / "app/spscope"), "--version"]),
        "commit": first_line(["git", "rev-parse", "HEAD"]),
        "changed_files": bool(first_line(["git", "status", "--porcelain", "--untracked-files=no"])),
        "compiler": first_line(["c++", "--version"]),
        "python": platform.python_version(),
    }
