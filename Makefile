# Millrace. `make` prints what there is.

GO       ?= go
PACKAGES ?= ./...
export GOTOOLCHAIN ?= local

.DEFAULT_GOAL := help

.PHONY: help
help: ## Print the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: bin/informer-debug ## Watch informers at work against the embedded API server
	./bin/informer-debug demo

.PHONY: build
build: bin/informer-debug ## Build the commands into bin/

.PHONY: bin/informer-debug
bin/informer-debug:
	$(GO) build -o $@ ./cmd/informer-debug

.PHONY: test
test: ## Run every test with the race detector, the real API server included
	@echo "building the real API server (minutes the first time)"
	@$(GO) -C test/kube build -ldflags="-s -w" -o /dev/null .
	$(GO) test -race -timeout 30m $(PACKAGES)
	$(GO) -C adapters/clientgo test -race ./...
	$(GO) -C adapters/controllerruntime test -race ./...
	$(GO) -C bench/report test -race ./...

.PHONY: check
check: ## gofmt, vet (32 bits and arm64 too), staticcheck, import floors
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	GOARCH=386 $(GO) vet ./...
	GOARCH=arm64 $(GO) vet ./...
	@for m in adapters/clientgo adapters/controllerruntime test/kube bench/report bench/contestants/millrace bench/contestants/clientgo bench/contestants/controllerruntime bench/contestants/floor; do \
		echo "$(GO) -C $$m vet ./..."; $(GO) -C $$m vet ./... || exit 1; done
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	$(GO) -C adapters/clientgo tool -modfile=../../tools/go.mod staticcheck ./...
	$(GO) -C adapters/controllerruntime tool -modfile=../../tools/go.mod staticcheck ./...
	$(GO) test ./test/floors

FUZZTIME ?= 1m

.PHONY: fuzz
fuzz: ## Fuzz everything that parses, FUZZTIME (1m) for each target
	@for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for target in $$($(GO) test -list '^Fuzz' $$dir | grep '^Fuzz'); do \
			echo "$$dir $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$dir || exit 1; \
		done; done

.PHONY: kube
kube: ## Run a real API server and print the kubeconfig to use
	@echo "building the real API server (minutes the first time)"
	@$(GO) -C test/kube build -ldflags="-s -w" -o $(CURDIR)/bin/kube .
	@exec ./bin/kube

.PHONY: bench
bench: bin/informer-bench ## Measure against client-go and make BENCHMARKS.md
	./bin/informer-bench run --rounds 5 --json bench/out/results.json
	./bin/informer-bench report bench/out/results.json

.PHONY: bench-quick
bench-quick: bin/informer-bench ## Measure a few scenarios
	./bin/informer-bench run --rounds 2 --objects 10000 --scenario sync-protobuf,watch-protobuf,fanout,workqueue --json bin/quick.json

OLD ?= main

.PHONY: bench-old
bench-old: bin/informer-bench ## Measure against another revision of Millrace, OLD (main)
	./bin/informer-bench run --rounds 5 --contestant millrace,millrace@$(OLD)

.PHONY: bench-micro
bench-micro: ## Run the micro-benchmarks of the inner pieces, for benchstat
	$(GO) test -run '^$$' -bench . -benchmem -count 6 ./controller ./deltafifo ./indexer ./sharedinformer ./wire ./workqueue

.PHONY: bin/informer-bench
bin/informer-bench:
	$(GO) build -o $@ ./cmd/informer-bench
