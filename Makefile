# Millrace. `make` prints what there is.

GO       ?= go
export GOTOOLCHAIN ?= local

# The packages that make test runs; empty: all.
PACKAGES ?=

# Every module: all directories with a go.mod.
MODULES := . $(filter-out .,$(patsubst ./%,%,$(patsubst %/,%,$(dir $(sort $(shell find . -name go.mod -not -path '*/testdata/*'))))))

.DEFAULT_GOAL := help

.PHONY: help
help: ## Print the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: bin/informer-debug ## Watch informers at work against the embedded API server
	./bin/informer-debug demo

.PHONY: build
build: bin/informer-debug ## Build the commands into bin/

# Shows how many packages are compiled, as the first build takes two minutes of CPU time.
.PHONY: bin/informer-debug
bin/informer-debug:
	@echo "building informer-debug (a minute or two the first time)"
	@{ $(GO) -C cmd/informer-debug build -v -o $(CURDIR)/$@ . 2>&1; echo "exit $$?"; } | \
		awk '/^exit / {code = $$2; next} /^[^ #]+$$/ {printf "\r%d packages compiled", ++n; fflush(); next} {print} END {if (n) print ""; exit code}'

# Memory for time: with 100, two fifths of the tests' CPU time is garbage collection.
test test-all check: export GOGC ?= 400

# Without symbols for a debugger, linking the test binaries takes a third less.
RUN_TESTS = GORACE="atexit_sleep_ms=100 $$GORACE" $(GO) run ./test/run -race -vet=off -ldflags=-s -timeout=30m

# Modules whose tests need Kubernetes compiled, a browser, Prometheus, controller-runtime's own
# suites or many minutes.
LATER := bench/report cmd/informer-bench envtest examples/first-operator test/browser test/e2e test/monitoring test/protocol test/simulation test/software test/torture tools
# Where package envtest keeps the real API server. If it is there, the stack is tested against it. If not,
# -short leaves out the tests that would build it.
BUILT := $(wildcard $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/millrace/kube-*)
comma := ,
empty :=

.PHONY: test
test: ## Test the root module, the adapters and informer-debug with the race detector; list what make test-all adds
	@$(RUN_TESTS) $(if $(PACKAGES)$(BUILT),,-short) $(or $(PACKAGES),-later=$(subst $(empty) $(empty),$(comma),$(filter-out $(if $(BUILT),test/protocol),$(LATER))))

.PHONY: test-all
test-all: ## Run every test of every module
	@echo "building the real API server (minutes the first time)"
	@$(GO) -C test/kube build -ldflags="-s -w" -o /dev/null .
	@$(RUN_TESTS)

# What has k8s.io/kubernetes in it. What that calls is Kubernetes' matter, so it is not
# looked at. Its controllers take a quarter of an hour to compile, which make software does:
# here it is only seen that all they import is there.
CONTROLLERS := test/software/kubernetes
KUBE := test/kube $(CONTROLLERS)

# Where known vulnerabilities are: https://... or, without a network, file:///DIRECTORY.
VULNDB ?= https://vuln.go.dev

# staticcheck reads what the compiler makes of the packages that are imported. With -race it is
# what the tests need too; without, all of it would be compiled twice.
.PHONY: check
check: ## gofmt, vet, types (for 32 bits, arm64 and Windows too), staticcheck, import floors, prose, workflows, minor versions, licences, vulnerabilities
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) -C tools run ./typecheck .. linux/386 windows/arm64
	$(GO) -C tools run ./vet $(addprefix ../,$(filter-out $(CONTROLLERS),$(MODULES)))
	$(GO) -C $(CONTROLLERS) list -deps ./... > /dev/null
	@$(GO) -C tools build -o $(CURDIR)/bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	@for m in $(filter-out $(KUBE),$(MODULES)); do \
		echo "staticcheck in $$m"; (cd $$m && GOFLAGS="-race $$GOFLAGS" $(CURDIR)/bin/staticcheck ./...) || exit 1; done
	$(GO) test -vet=off ./test/floors
	$(GO) -C tools run ./prose ..
	$(GO) -C tools tool actionlint $(addprefix ../,$(wildcard .github/workflows/*.yml))
	$(GO) -C tools run ./minors
	$(GO) -C tools run ./licenses $(addprefix ../,$(MODULES))
	$(GO) -C tools run ./vulnerabilities -db $(VULNDB) $(addprefix ../,$(filter-out $(KUBE),$(MODULES)))

GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: lint
lint: ## golangci-lint's default linters, of which make check runs vet and staticcheck
	@GOBIN=$(CURDIR)/bin $(GO) install $(GOLANGCI_LINT)
	@for m in $(filter-out $(KUBE),$(MODULES)); do \
		echo "golangci-lint in $$m"; (cd $$m && $(CURDIR)/bin/golangci-lint run ./...) || exit 1; done

.PHONY: minors
minors: ## Run the tests of the root module, and on a real server, with each minor version of k8s.io/api that it works with
	$(GO) -C tools run ./minors -test $(PACKAGES)
ifeq ($(PACKAGES),)
	$(GO) -C tools run ./minors -test -C ../test/protocol
	$(GO) -C tools run ./minors -test -C ../test/e2e
endif

SEED ?= $(shell date +%s)

.PHONY: torture
torture: ## Break a real cluster on purpose for TIME (10m), as drawn from SEED; the tests do for 45 s
	$(GO) -C test/torture test -race -vet=off -count=1 -timeout=0 -tags clocksteps -ldflags=-checklinkname=0 . -v -duration=$(or $(TIME),10m) -seed=$(SEED)

VERSION ?=

.PHONY: release-rehearsal
release-rehearsal: ## Use VERSION (v0.1.0) of the committed tree as strangers would, what is named like ONLY
	$(GO) -C tools run ./release rehearse -version '$(VERSION)' -only '$(ONLY)'

.PHONY: release-artifacts
release-artifacts: ## Make what people download of VERSION in dist/VERSION, and publish nothing
	$(GO) -C tools run ./release pack -version '$(VERSION)' ../dist/$(VERSION)

.PHONY: release-proofs
release-proofs: ## Run all checks that are too long for each commit, what is named like ONLY, and write results/VERSION.md
	$(GO) -C tools run ./release prove -version '$(VERSION)' -only '$(ONLY)'

FUZZTIME ?= 1m

.PHONY: fuzz
fuzz: ## Fuzz everything that parses, FUZZTIME (1m) for each target, or FUZZEXECS inputs in all
	$(GO) run ./test/fuzz $(if $(FUZZEXECS),-execs $(FUZZEXECS),-time $(FUZZTIME)) $(if $(FUZZTOTAL),-total $(FUZZTOTAL))

.PHONY: kube
kube: ## Run a real API server and print the kubeconfig; ARGS="--dir D --port P" keeps it, KUBERNETES=1.35 or 1.37 chooses
	@echo "building the real API server (minutes the first time)"
	@$(GO) -C test/kube build $(if $(KUBERNETES),-modfile=minors/v$(KUBERNETES).mod) -ldflags="-s -w" -o $(CURDIR)/bin/kube .
	@exec ./bin/kube $(ARGS)

.PHONY: bench
bench: bin/informer-bench ## Measure against client-go and write results/benchmarks.md; ARGS=--resume continues a run
	./bin/informer-bench run --rounds 5 --json bench/out/results.json $(ARGS)
	./bin/informer-bench report bench/out/results.json

.PHONY: bench-quick
bench-quick: bin/informer-bench ## Measure a few scenarios
	./bin/informer-bench run --rounds 2 --objects 10000 --scenario sync-protobuf,watch-protobuf,fanout,workqueue --json bin/quick.json

OLD ?= main

.PHONY: bench-old
bench-old: bin/informer-bench ## Measure against another revision of Millrace, OLD (main)
	./bin/informer-bench run --rounds 5 --contestant millrace,millrace@$(OLD)

.PHONY: conformance
conformance: ## Hold every stack to the contract of informers, and write results/conformance.md
	$(GO) -C test/conformance run ./table > results/conformance.md.new
	@mv results/conformance.md.new results/conformance.md

FROM ?= 0

.PHONY: software
software: ## Run other people's software on Millrace, what is named like ONLY, and write results/software.md
	$(GO) -C test/software build -o $(CURDIR)/bin/software .
	./bin/software $(if $(ONLY),-only '$(ONLY)')

.PHONY: simulate
simulate: ## Play schedules of faults on all cores: RUNS=100000 or TIME=1h, FROM a seed on
	$(GO) -C test/simulation run ./simulate -from $(FROM) $(if $(RUNS),-runs $(RUNS)) $(if $(TIME),-time $(TIME)) $(if $(RUNS)$(TIME),,-runs 10000)

# Who plays schedules of shared work: members, informers (each schedule holds S03, S04 and S05),
# and whole programs.
SHARING := ./shard/membership:TestS01_NoTwoWorkInOneSlot ./sharedinformer:TestS0[345]_ ./manager:TestProgramsThatShareWork

.PHONY: simulate-sharing
simulate-sharing: ## Play RUNS (10000) schedules each of members, informers and programs that share work, or SCHEDULE alone
	@for it in $(SHARING); do echo "$$it"; \
		{ $(GO) test -timeout 0 -v -run "$${it#*:}" $${it%:*} -args $(if $(SCHEDULE),-seed $(SCHEDULE) -schedules $(SCHEDULE),-schedules $(or $(RUNS),10000)) 2>&1; echo "exit $$?"; } | \
		awk '/^exit / {code = $$2; next} /--- PASS: .*\/seed_/ {well++; next} /--- FAIL: .*\/seed_/ {ill++} /^=== / {next} {print; fflush()} \
			END {printf "%d schedules passed, %d failed; SCHEDULE=N plays one alone\n", well, ill; exit code}' || exit 1; done

.PHONY: soak
soak: ## Run a program for DAYS (30) of virtual time, with 10,000 objects
	$(GO) test -v -timeout 0 ./test/soak -args -days $(or $(DAYS),30) -day 24h -objects 10000 -changes 4320

.PHONY: bench-micro
bench-micro: ## Run the micro-benchmarks of the inner pieces, for benchstat
	$(GO) test -run '^$$' -bench . -benchmem -count 6 ./controller ./deltafifo ./indexer ./sharedinformer ./wire ./workqueue

.PHONY: bin/informer-bench
bin/informer-bench:
	$(GO) -C cmd/informer-bench build -o $(CURDIR)/$@ .
