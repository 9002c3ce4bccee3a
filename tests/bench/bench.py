#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./run bench`: see docs/bench.md."""

import argparse
import dataclasses
import importlib.util
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import HERE, ROOT, Bench, compare, machine, table_text, versions


def find_benches():
    """Name -> module, in the order of their files' names."""
    found = {}
    for path in sorted((HERE / "benches").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"benches.{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found[path.stem.replace("_", "-")] = module
    return found


def needs_torch(module):
    return getattr(module, "NEEDS_TORCH", False)


def show_comparison(stored, figures, path, tolerance):
    """Prints how this run stands beside the stored one; the number of figures that are worse than they may be."""
    verdicts, alone = compare(stored["figures"], figures, tolerance)
    worse = [verdict for verdict in verdicts if not verdict.fine()]
    rows = [
        [v.name, f"{v.stored:.4g}", f"{v.now:.4g}", f"{v.worse:.2f}", f"{v.tolerance:.2f}", "" if v.fine() else "WORSE"]
        for v in verdicts
    ]
    print("\n" + table_text(f"Against {path} ({stored['versions']['commit'][:12]})",
                            ["figure", "stored", "now", "worse by", "allowed", ""], rows))
    if alone:
        print(f"  in one of the two runs only: {', '.join(alone)}")
    print(f"  {len(verdicts)} figures compared, {len(worse)} worse than allowed")
    return len(worse)


def main():
    parser = argparse.ArgumentParser(
        prog="./run bench", description="Measures compiling and running; results as tables and as JSON. See docs/bench.md."
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="which benches (default: all)")
    parser.add_argument("--list", action="store_true", help="names the benches")
    parser.add_argument("--against", metavar="FILE", type=pathlib.Path, const=HERE / "stored.json", nargs="?",
                        help="compare with a stored run (default: tests/bench/stored.json); exit code 1 where a ratio is worse than allowed")
    parser.add_argument("--tolerance", metavar="X", type=float, help="allowed factor for every figure, instead of each one's own")
    parser.add_argument("--json", metavar="OUT", type=pathlib.Path, help="default: bench.json in the build folder")
    parser.add_argument("--repeats", metavar="N", type=int, help="instead of each bench's own number")
    parser.add_argument("--zoo", metavar="DIR", type=pathlib.Path, default=os.environ.get("SPSCOPE_ZOO", ROOT.parent / "shared/zoo"),
                        help="folder of models (default: SPSCOPE_ZOO, or ../shared/zoo); those that are missing are left out")
    parser.add_argument("--build", metavar="DIR", type=pathlib.Path, default=ROOT / "build/release", help=argparse.SUPPRESS)
    parser.add_argument("--needs-torch", action="store_true", help=argparse.SUPPRESS)  # for ./run: exit code 0 where one does
    args = parser.parse_args()

    benches = find_benches()
    if args.list:
        for name, module in benches.items():
            print(f"{name:12} {module.SUMMARY}")
        return 0
    for name in args.names:
        if name not in benches:
            parser.error(f"there is no bench {name}; there are: {', '.join(benches)}")
    chosen = [name for name in benches if not args.names or name in args.names]
    if args.needs_torch:
        return 0 if any(needs_torch(benches[name]) for name in chosen) else 1
    stored = json.loads(args.against.read_text()) if args.against else None

    result = {"version": 1, "machine": machine(), "versions": versions(args.build), "benches": {}, "figures": [], "failed": []}
    print(f"{result['machine']['processor']}, {result['machine']['cores']} cores, load {result['machine']['load_before']}; "
          f"{result['versions']['spscope']}; {result['versions']['compiler']}")
    figures = []
    for name in chosen:
        bench = Bench(name, args.build, args.zoo, args.repeats)
        begin = time.perf_counter()
        try:
            benches[name].run(bench)
        except (RuntimeError, OSError) as error:  # the others go on
            print(f"bench {name}: {error}", file=sys.stderr)
            result["failed"].append(f"{name}: {error}")
        result["benches"][name] = {"seconds": round(time.perf_counter() - begin, 1), "left_out": bench.left_out,
                                   "details": bench.details, "tables": bench.tables}
        figures += bench.figures
    result["machine"]["load_after"] = round(os.getloadavg()[0], 2)
    result["figures"] = [dataclasses.asdict(figure) for figure in figures]
    output = args.json or args.build / "bench.json"
    output.write_text(json.dumps(result, indent=1) + "\n")

    beyond = [figure for figure in figures if not figure.within_limit()]
    for figure in beyond:
        print(f"LIMIT: {figure.name} is {figure.value:.4g} {figure.unit}, the limit is {figure.limit:.4g}")
    worse = show_comparison(stored, figures, args.against, args.tolerance) if stored else 0
    print(f"\nwritten: {output}")
    if not figures:
        print("bench: nothing could be measured", file=sys.stderr)
    return 1 if result["failed"] or beyond or worse or not figures else 0


sys.exit(main())
