#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A stand-in for nsys: notes its arguments in FAKE_NSYS_LOG; `profile` runs the program with its exit code and leaves a
# report; `export` copies FAKE_NSYS_EXPORT.
printf '%s\n' "$*" >> "$FAKE_NSYS_LOG"
what=$1
shift
while [ $# -gt 0 ]; do
  case $1 in
    -o) out=$2; shift 2 ;;
    -t | -s | -f | --quiet | --type | --force-overwrite) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
if [ "$what" = export ]; then
  [ -s "$1" ] || exit 2
  exec cp "$FAKE_NSYS_EXPORT" "$out"
fi
"$@"
code=$?
echo "a report" > "$out.nsys-rep"
exit $code
