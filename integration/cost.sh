#!/bin/sh
# cost.sh runs the tests of a package, as `go test -exec` does, and notes for gate.sh what they have cost.
unset GOGC # tests, and the programs that they start, run as users have them
began=$(date +%s)
"$@"
status=$?
cost=$GATE_COSTS/$$
echo "$(($(date +%s) - began)) ${PWD#"$GATE_ROOT"/}" >"$cost"
times >>"$cost"
exit $status
