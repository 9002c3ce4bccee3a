#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one libFuzzer program for some seconds.

  run_fuzzer.py PROGRAM FOUND_DIR CORPUS_DIR [--seconds N]

New inputs are kept in FOUND_DIR (so that the next run starts where this one ended), crashes in FOUND_DIR/crashes. The last
line counts executions and findings; exit 1 where there is a finding: minimise it and put it into the corpus."""

import argparse
import os
import pathlib
import re
import subprocess
import sys


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("found", type=pathlib.Path)
    arguments.add_argument("corpus", type=pathlib.Path)
    arguments.add_argument("--seconds", type=int, default=30)
    arguments = arguments.parse_args()
    crashes = arguments.found / "crashes"
    crashes.mkdir(parents=True, exist_ok=True)
    inputs = arguments.found / "inputs"
    inputs.mkdir(exist_ok=True)
    if not any(arguments.corpus.iterdir()):
        print(f"{arguments.corpus} holds no input")
        return 1
    command = [
        arguments.program,
        f"-max_total_time={arguments.seconds}",
        "-timeout=10",  # seconds for one input
        "-rss_limit_mb=1024",
        "-malloc_limit_mb=512",
        "-max_len=98304",
        "-print_final_stats=1",
        f"-artifact_prefix={crashes}/",
        str(inputs),
        str(arguments.corpus),
    ]
    words = pathlib.Path(__file__).parent / f"{arguments.corpus.resolve().name}.dict"
    if words.exists():
        command.insert(1, f"-dict={words}")
    environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=0", UBSAN_OPTIONS="print_stacktrace=1")
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, errors="replace")
    executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", run.stdout)
    coverage = re.findall(r"cov: (\d+)", run.stdout)
    if run.returncode != 0:
        print(run.stdout[-8000:])
    name = pathlib.Path(arguments.program).name
    print(
        f"{name}: {executed.group(1) if executed else '?'} executions in {arguments.seconds} s, "
        f"{coverage[-1] if coverage else '?'} edges, {'a finding in ' + str(crashes) if run.returncode else 'no finding'}"
    )
    return 1 if run.returncode else 0


sys.exit(main())
