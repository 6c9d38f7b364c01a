#!/bin/sh
# gate.sh vets the code, runs every test of `make test`, and prints at its end what each package has cost: seconds
# of wall, and of CPU with all that it has started.
#
#	integration/gate.sh [package ...]    packages as `go list` takes them; all of them by default
#
# Packages in which goroutines of the program meet have the race detector; the others run as users run the
# program. Both kinds run at the same time, since most tests wait most of the time.
#
#	TIMEOUT=20m  of a package: only a hung one needs it
#	COSTS=       a file for the table; by default it is printed alone
set -u
cd "$(dirname "$0")/.." || exit 2
GO=${GO:-go} TIMEOUT=${TIMEOUT:-20m}
# what is compiled for one test serves the others, and releases, if all say so
export GOFLAGS="${GOFLAGS:-} -trimpath"
export GOGC=400 # for compilers and linkers: cost.sh takes it from the tests

raced="./internal/loop ./proxy/... ./cluster/... ./redlock/... ./commands ./commands/holds"
# of these, what the race detector would only make slow: scripts of Redis, and megabytes of lies
unraced="./redlock/scripts ./proxy/hostile"

dir=$(mktemp -d) || exit 2
GATE_ROOT=$PWD GATE_COSTS=$dir/costs
export GATE_ROOT GATE_COSTS
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
mkdir "$GATE_COSTS" || exit 2

# with_tests prints which of the packages have tests.
with_tests() { "$GO" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' "$@"; }

# shellcheck disable=SC2086 # lists of words
{
	with_tests "${@:-./...}" | sort -u >"$dir/all" || exit 2
	"$GO" list $raced | sort -u >"$dir/raced.all"
	"$GO" list $unraced | sort -u >"$dir/unraced"
}
comm -23 "$dir/raced.all" "$dir/unraced" | comm -12 - "$dir/all" >"$dir/race"
comm -13 "$dir/race" "$dir/all" >"$dir/plain"

# What takes longest begins first, or it would run alone in the end.
for kind in race plain; do
	for name in faults transcripts attacks deploy clients compare compat proxy quorum locks pubsub discovery pipe; do
		grep "/$name\$" "$dir/$kind"
	done >"$dir/$kind.first"
	grep -Fxv -f "$dir/$kind.first" "$dir/$kind" >"$dir/$kind.rest"
	cat "$dir/$kind.first" "$dir/$kind.rest" >"$dir/$kind"
done

# run KIND FLAG... runs the packages of a kind.
run() {
	kind=$1
	shift
	[ -s "$dir/$kind" ] || return 0
	# -vet=off: vet has been before.
	# shellcheck disable=SC2046 # names of packages are words
	"$GO" test -vet=off -count=1 -timeout "$TIMEOUT" -exec "$GATE_ROOT/integration/cost.sh" "$@" \
		$(cat "$dir/$kind")
}

began=$(date +%s)
CGO_ENABLED=0 "$GO" vet -tags limits "${@:-./...}" || exit 1
# Tests of servers wait for time-outs most of the time: many at once cost no more than a few.
run race -race -p 2 -parallel 6 >"$dir/race.log" 2>&1 &
race=$!
CGO_ENABLED=0 run plain -p 4 -parallel 16
failed=$?
wait "$race" || failed=1
cat "$dir/race.log"
took=$(($(date +%s) - began))

# times prints user and system time of this shell, and then of all that it has started and waited for.
times >"$dir/times"
awk -v took=$took '
	function seconds(s, parts) { split(s, parts, "[ms]"); return 60 * parts[1] + parts[2] }
	FILENAME ~ /times$/ { if (FNR == 2) all = seconds($1) + seconds($2); next }
	FNR == 1 { wall = $1; name = $2 }
	FNR == 3 {
		cpu = seconds($1) + seconds($2)
		row[++n] = sprintf("%-34s %6d %7.1f", name, wall, cpu)
		cost[n] = cpu; sum += cpu
	}
	END {
		printf "\n%-34s %6s %7s\n", "package", "wall s", "CPU s"
		for (i = 1; i <= n; i++) {
			best = 0
			for (j = 1; j <= n; j++) if (!told[j] && (!best || cost[j] > cost[best])) best = j
			told[best] = 1; print row[best]
		}
		printf "%-34s %6s %7.1f\n", "vet, compiling and linking", "", all - sum
		printf "%-34s %6d %7.1f\n", "all", took, all
	}' "$dir/times" "$GATE_COSTS"/* | tee "${COSTS:-/dev/null}"
exit $failed
