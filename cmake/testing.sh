# SPDX-License-Identifier: Apache-2.0
# Sourced by ./run after setup.sh: runs CTest on a preset and adds up what all runs counted.

passed=0 failed=0 skipped=0 ctestFailed=0

# The attribute of the report's <testsuite>; its first occurrence, since outputs of tests follow.
suiteCount() { grep -m1 -oE "^\s*$2=\"[0-9]+\"" "$1" | grep -oE '[0-9]+'; }

# runTests PRESET [CTEST-ARGUMENT...]
runTests() {
  local preset=$1 report=$PWD/build/$1/tests.xml total bad off skip
  shift
  say "== testing build/$preset"
  rm -f "$report"
  ctest --preset "$preset" -j "$(parallelJobs)" --output-junit "$report" "$@" || ctestFailed=1
  [ -e "$report" ] || die "CTest wrote no report for build/$preset"
  total=$(suiteCount "$report" tests)
  bad=$(suiteCount "$report" failures)
  off=$(suiteCount "$report" disabled)
  skip=$(suiteCount "$report" skipped)
  passed=$((passed + total - bad - off - skip))
  failed=$((failed + bad))
  skipped=$((skipped + off + skip))
}

# The last line of ./run test. Fails when a test failed, and when none ran.
testSummary() {
  say "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ] && [ "$ctestFailed" -eq 0 ] && [ "$passed" -gt 0 ]
}

# runFuzzers [SECONDS] [TARGET...]: as many at a time as there are cores. Fails when one found something.
runFuzzers() {
  local seconds=${1:-60} targets=("${@:2}") source
  [[ $seconds =~ ^[0-9]+$ ]] || die "how many seconds? '$seconds' is no number"
  if [ ${#targets[@]} -eq 0 ]; then
    for source in tests/fuzz/*_fuzzer.cpp; do
      targets+=("$(basename "$source" _fuzzer.cpp)")
    done
  fi
  for source in "${targets[@]}"; do
    [ -e "tests/fuzz/${source}_fuzzer.cpp" ] || die "there is no fuzzer '$source'; see tests/fuzz/*_fuzzer.cpp"
  done
  printf '%s\0' "${targets[@]}" | xargs -0 -I{} -P "$(parallelJobs)" python3 tests/fuzz/run_fuzzer.py \
    build/fuzz/tests/fuzz/fuzz_{} build/fuzz/tests/fuzz/found/{} tests/fuzz/corpus/{} --seconds "$seconds"
}
