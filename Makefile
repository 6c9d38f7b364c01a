GO       ?= go
TIMEOUT  ?= 20m
QUICK    := ./internal/... ./cmd/... ./commands/... ./proxy/... ./cluster/... ./redlock/... ./integration/bench ./integration/chaos ./integration/compat ./integration/house ./integration/page ./integration/trace
# packages that start servers
SERVERS  := ./integration/compat ./integration/faults ./integration/attacks ./integration/transcripts ./integration/compare ./integration/clients ./integration/rig ./integration/tool ./integration/browser
# what is compiled for one test serves the others, and releases, if all say so
SHARED   := GOFLAGS="$$GOFLAGS -trimpath"
FUZZTIME ?= 10m
# What is instrumented for the fuzzer. `go test -fuzz` has every library too, which halves the inputs a second. Left
# out is what differs by chance from one input to the next: the loop, which is another one in tests, timers of the
# index, and the tests themselves.
FUZZED   := -gcflags=lockproxy/...=-d=libfuzzer -gcflags=lockproxy/internal/loop= -gcflags=lockproxy/redlock/index= \
	-gcflags=lockproxy/proxy/hostile= -gcflags=lockproxy/cmd/lockproxy/checkup=
RUNS     ?= 20
LOAD     ?= 0
PKGS     ?=
SOAKTIMEOUT ?= 6h
TRACEOPS ?= 10000000
VERSION  ?= $(shell sed -n 's/.*version = "\(.*\)"/\1/p' cmd/lockproxy/version.go)
COMMIT   ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

.PHONY: help build release quick test limits tools vet fmt-check fuzz bench bench-tools soak again compat matrix chart chaos chaos-tools traces

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile | column -t -s ':' 2>/dev/null || grep '##' Makefile

build: ## bin/lockproxy, one static file
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)" -o bin/lockproxy ./cmd/lockproxy

release: ## dist: static binaries for Linux and macOS, an image context, bills of materials, checksums
	GO="$(GO)" integration/release.sh $(VERSION)

quick: fmt-check ## every test that needs no server and no build of the program, in less than a minute: to run before each commit
	$(SHARED) CGO_ENABLED=0 $(GO) vet -tags quick $(QUICK)
	$(SHARED) CGO_ENABLED=0 GOGC=400 $(GO) test -tags quick -short -vet=off -timeout 10m $(QUICK)

test: tools fmt-check ## install what is missing, then every test; at the end what each package has cost
	GO="$(GO)" TIMEOUT=$(TIMEOUT) integration/gate.sh $(PKGS)

limits: tools ## what has to be measured in seconds or in the machine's memory, as ratios of one run; before a release
	$(SHARED) CGO_ENABLED=0 $(GO) test -tags limits -vet=off -count=1 -v -p 1 -timeout 1h -run '^TestLimit' \
		$$(grep -rl --include='*_limits_test.go' '^//go:build limits' . | xargs -n 1 dirname | sort -u)

tools: # what the tests need: a C compiler for the race detector, Redis, clients of other languages, a browser, other servers
	@cc=$$($(GO) env CC); command -v "$${cc%% *}" >/dev/null || { \
		echo "installing gcc: the race detector needs a C compiler"; \
		command -v apt-get >/dev/null || { echo "no apt-get here: please install a C compiler" >&2; exit 1; }; \
		root=; [ "$$(id -u)" = 0 ] || root=sudo; \
		$$root apt-get update -qq && $$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev; }
	@integration/install.sh
	@integration/servers.sh get

vet:
	$(SHARED) CGO_ENABLED=0 $(GO) vet -tags limits ./...

fmt-check:
	@files=$$(gofmt -l .); [ -z "$$files" ] || { echo "gofmt would change:" $$files >&2; exit 1; }

fuzz: ## each fuzz target for FUZZTIME (10m)
	@set -e; program=$$(mktemp); trap 'rm -f $$program' EXIT; trap 'exit 130' INT TERM; \
	for file in $$(grep -rl --include='*_test.go' '^func Fuzz' . | sort); do \
		dir=$$(dirname $$file); $(SHARED) CGO_ENABLED=0 $(GO) test -vet=off -c $(FUZZED) -o $$program $$dir; \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$file); do \
			echo "fuzz $$file $$target for $(FUZZTIME)"; \
			(cd $$dir && $$program -test.run '^$$' -test.fuzz "^$$target\$$" -test.fuzztime $(FUZZTIME) \
				-test.fuzzcachedir "$$($(GO) env GOCACHE)/fuzz/lockproxy/$${dir#./}"); \
		done; \
	done

bench: tools bench-tools ## measure against Redis itself, twemproxy and haproxy; BENCHFLAGS="-only lock -write docs/performance.md" one section, for the page
	$(GO) run ./integration/bench $(BENCHFLAGS)

bench-tools: # the yardsticks of the benchmark
	@missing=; command -v nutcracker >/dev/null || missing="nutcracker"; \
	command -v haproxy >/dev/null || missing="$$missing haproxy"; \
	[ -z "$$missing" ] || { echo "installing $$missing"; \
		if command -v apt-get >/dev/null; then \
			root=; [ "$$(id -u)" = 0 ] || root=sudo; \
			$$root apt-get update -qq && $$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
		else brew install $$(echo $$missing | sed s/nutcracker/twemproxy/); fi; }

soak: tools ## the integration tests with long doses; SOAKFLAGS="-run TestTraces -for 1h" traces alone
	$(GO) test -race -count=1 -v -timeout $(SOAKTIMEOUT) -p 1 -skip '^TestCompat$$' $(SERVERS) -long -raced $(SOAKFLAGS)
	$(GO) test -race -count=1 -timeout $(SOAKTIMEOUT) ./proxy -run Storm -storm.seed 0 -storm.rounds 500
	$(GO) test -race -count=1 -timeout $(SOAKTIMEOUT) ./cluster/pipe -run TestPoolModel -model.seed 0 -model.runs 1000
	$(GO) test -race -count=1 -timeout $(SOAKTIMEOUT) ./redlock/locks -run TestSetModel -seeds 300
	$(GO) test -race -count=1 -timeout $(SOAKTIMEOUT) ./redlock/quorum -run 'TestQuorumModel|Fuzzed$$' -rapid.seed 0 -rapid.checks 1000
	$(GO) test -race -count=1 -timeout $(SOAKTIMEOUT) ./redlock/scripts -run '^TestModel$$' -rapid.seed 0 -rapid.checks 10000
	$(GO) test -race -count=1 -timeout $(SOAKTIMEOUT) ./internal/resp -run 'CutAnywhere$$' -rapid.seed 0 -rapid.checks 100000

again: tools ## what make test runs, RUNS times (20), beside LOAD busy processes (0); PKGS="./proxy ./redlock/..." some packages
	GO="$(GO)" RUNS=$(RUNS) LOAD=$(LOAD) TIMEOUT=$(TIMEOUT) integration/again.sh $(PKGS)

compat: tools ## Redis's own test suite straight and through the proxy; SERVER=valkey9 that of another server; COMPATFLAGS="-compat-targets single" parts of it
	[ -z "$(SERVER)" ] || PATH=$$(integration/servers.sh path $(SERVER)):$$PATH; \
	$(GO) test -count=1 -v -timeout $(SOAKTIMEOUT) ./integration/compat -run '^TestCompat$$' -long $(COMPATFLAGS)

matrix: tools ## every server from Redis 6.0 to Valkey 9, alone, as cluster, with Sentinel and for RedLock; MATRIX="valkey9/cluster" parts
	GO="$(GO)" integration/matrix.sh $(MATRIX)

chart: ## the chart of docs/deploy as Helm itself makes and judges it: after a change of the chart
	$(SHARED) CGO_ENABLED=0 $(GO) test -count=1 -timeout $(TIMEOUT) ./integration/deploy -run '^TestChartIsHelms$$' -helm

chaos: tools chaos-tools ## faults of nodes, networks and proxies, and what clients feel; CHAOSFLAGS="-only kill -write docs/resilience.md" one, for the page
	$(GO) mod download # not from inside
	integration/inside.sh $(GO) run ./integration/chaos $(CHAOSFLAGS)

chaos-tools: # what makes a network, and drops packets
	@command -v iptables >/dev/null && command -v ip >/dev/null || ! command -v apt-get >/dev/null || { echo "installing iptables, iproute2"; \
		root=; [ "$$(id -u)" = 0 ] || root=sudo; \
		$$root apt-get update -qq && $$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends iptables iproute2; }

traces: tools ## traces of locks over all topologies, on Redis 7 and Valkey 9, until they have TRACEOPS operations (10^7), for docs/resilience.md
	@figures=$$(mktemp); each=$$(($(TRACEOPS) / 9)); failed=0; \
	for server in redis7 valkey9; do \
		$(GO) test -count=1 -parallel 2 -v -timeout 0 ./integration/faults -long -ops $$each -server $$server -figures $$figures \
			-run '^(TestTraces|TestTracesOfOneMaster|TestRedlockTraces|TestMovingSlotsTraces)$$' $(TRACEFLAGS) || failed=1; \
	done; \
	$(GO) run ./integration/chaos -traces $$figures -write docs/resilience.md && exit $$failed
