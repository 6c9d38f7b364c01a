#!/bin/sh
# again.sh runs what `make test` runs many times, and goes on after a failure: what fails once in twenty runs on a
# busy machine is a fault of a test, or of the product.
#
#	integration/again.sh [package ...]    packages as `go list` takes them; all of them by default
#
#	RUNS=20      runs
#	LOAD=0       processes beside it that keep a processor busy
#	TIMEOUT=20m  of a package
#	OUT=         a directory for the list of runs and the output of each that failed; one of an earlier call is
#	             added to. By default a new directory under /tmp
#
# The end is a table, after an interrupt as well. The exit status is 1 if a run failed.
set -u
cd "$(dirname "$0")/.." || exit 2
RUNS=${RUNS:-20} LOAD=${LOAD:-0}
OUT=${OUT:-$(mktemp -d "${TMPDIR:-/tmp}/again.XXXXXX")}
runs=$OUT/runs # a line each run: its name, busy processes, seconds, seconds of CPU, ok or failed, names of failed tests

# busy keeps a processor busy until the script has ended, in whatever way.
busy() { while kill -0 $$ 2>/dev/null; do i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; done; }

# failed FILE prints the names of the tests that the output tells of: failed ones, and those under way when
# the program ended before its tests did.
failed() { sed -n -e 's/^ *--- FAIL: \([^ ]*\).*/\1/p' -e 's/^	*\(Test[^ ]*\) ([0-9hms.]*)$/\1/p' "$1" | sort -u | tr '\n' ' '; }

# table sums up the list of runs.
table() {
	[ -s "$runs" ] || return
	echo
	awk '
		BEGIN { printf "%-18s %5s %7s %7s  %s\n", "run", "load", "wall s", "CPU s", "failed tests" }
		{
			names = ""
			for (i = 6; i <= NF; i++) names = names $i " "
			printf "%-18s %5d %7d %7d  %s\n", $1, $2, $3, $4, $5 == "ok" ? "-" : names
			bad += $5 != "ok"
		}
		END { printf "%d runs, %d failed\n", NR, bad }' "$runs"
	! grep -q ' failed ' "$runs" || echo "the output of the runs that failed: $OUT"
}

mkdir -p "$OUT" || exit
trap 'exit 130' INT TERM
trap table EXIT
i=0; while [ $i -lt "$LOAD" ]; do busy & i=$((i + 1)); done
i=0
while [ $i -lt "$RUNS" ]; do
	i=$((i + 1))
	name=$(date +%Y%m%d-%H%M%S) verdict=ok names=
	log=$OUT/$name.log
	COSTS=$OUT/costs integration/gate.sh "$@" >"$log" 2>&1 </dev/null || verdict=failed
	if [ $verdict = ok ]; then rm "$log"; else names=$(failed "$log"); fi
	echo "$name $LOAD $(awk '/^all /{print $2, $3}' "$OUT/costs") $verdict $names" | tee -a "$runs"
done
! grep -q ' failed ' "$runs"
