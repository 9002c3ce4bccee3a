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
