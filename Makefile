# Millrace. `make` prints what there is.

GO       ?= go
PACKAGES ?= ./...
export GOTOOLCHAIN ?= local

.DEFAULT_GOAL := help

.PHONY: help
help: ## Print the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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

.PHONY: check
check: ## gofmt, vet, staticcheck, import floors
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) -C test/kube vet ./...
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	$(GO) test ./test/floors

.PHONY: kube
kube: ## Run a real API server and print the kubeconfig to use
	@echo "building the real API server (minutes the first time)"
	@$(GO) -C test/kube build -ldflags="-s -w" -o $(CURDIR)/bin/kube .
	@exec ./bin/kube

.PHONY: bench
bench: ## Run the micro-benchmarks of every package
	$(GO) test -run '^$$' -bench . -benchmem -count 5 ./deltafifo ./indexer ./sharedinformer ./wire ./workqueue
