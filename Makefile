# Every task in this repository has a target; `make` lists them. Required: Go, Python 3.10 or newer with venv, Node 20 or
# newer, Java 17 and Maven for Java, and cargo for `make test-interop`; the rest comes from the package registries.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO ?= go
PYTHON ?= python3
# Set GOLANGCI to an installed binary to save building it.
GOLANGCI ?= $(GO) tool -modfile=$(CURDIR)/tools/golangci/go.mod golangci-lint
VERSION := $(shell tools/version)

# The modules of tests, so that users of mcpbridge need not download their dependencies.
PEER_MODULES := $(patsubst %/go.mod,%,$(wildcard test/interop/go/go.mod test/interop/servers/both/go/go.mod test/bench/go.mod test/survive/go.mod))
# The Python files outside the SDK, relative to its directory, whose settings apply. Rules that tests with unittest and
# programs that start programs break are ignored.
PYTHON_BESIDE := ../../examples ../../test/interop/witness.py ../../test/conformance ../../test/bench ../../tools
RUFF_BESIDE := --config pyproject.toml --extend-ignore N802,N815,PT,RUF012,S

# The TypeScript SDK and the examples that use it, built.
TYPESCRIPT := sdkgen/typescript/dist/index.js examples/watch-typescript/node_modules/.done \
	examples/conformance-typescript/dist/.done examples/kit-typescript/dist/.done examples/client-typescript/dist/.done

# The Java SDK and the examples that use it, built.
JAVA := sdkgen/java/target/.done

# What the tests of several languages need.
TESTED := .venv/.dev test/interop/ts/node_modules/.done $(TYPESCRIPT)

# The Python of .venv comes first for everything, so that the generators are the pinned ones.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: setup
setup: .venv/.done ## install the SDK for Python and its dependencies into .venv

.PHONY: setup-typescript
setup-typescript: $(TYPESCRIPT) ## build the TypeScript SDK and the examples that use it

.PHONY: setup-java
setup-java: $(JAVA) ## build the Java SDK and the examples that use it

.venv/.done: $(wildcard sdkgen/python/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "make: $(PYTHON) is older than Python 3.10; say which one to use: make PYTHON=python3.12" >&2; exit 1; }
	@echo "setup, step 1 of 2: the virtual environment .venv"
	@test -x .venv/bin/python || $(PYTHON) -m venv .venv || { \
		echo "make: $(PYTHON) cannot make a virtual environment; install its venv module (Debian: python3-venv)" >&2; exit 1; }
	@echo "setup, step 2 of 2: the SDK for Python and its dependencies"
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check -e sdkgen/python
	@touch $@

# What generates, checks and tests Python.
.venv/.dev: .venv/.done
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -e 'sdkgen/python[dev]'
	@touch $@

%/node_modules/.done: %/package-lock.json
	npm ci --prefix $* --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

sdkgen/typescript/dist/index.js: sdkgen/typescript/node_modules/.done $(wildcard sdkgen/typescript/src/*.ts sdkgen/typescript/src/gen/mcpbridge/v1/*.ts sdkgen/typescript/src/gen/google/*/*.ts)
	npm run --silent build --prefix sdkgen/typescript

test/bench/python/.venv/.done test/interop/servers/.venv/.done test/interop/servers/2025/.venv/.done tools/packaging/.venv/.done: %/.venv/.done: %/requirements.txt
	@test -x $*/.venv/bin/python || $(PYTHON) -m venv $*/.venv
	$*/.venv/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# Warnings, and not only errors, are to be seen.
MVN := mvn -B -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -f sdkgen/java/all.xml

sdkgen/java/target/.done: $(wildcard sdkgen/java/*.xml proto/mcpbridge/v1/*.proto sdkgen/java/src/main/java/dev/mcpbridge/*.java examples/*-java/pom.xml examples/*-java/src/main/java/*/*/*/*.java test/*/java/pom.xml test/bench/java/src/main/java/bench/*.java test/interop/servers/java/pom.xml test/interop/servers/java/src/main/java/interop/*.java)
	$(MVN) package -DskipTests
	@touch $@

.PRECIOUS: %/node_modules/.done
examples/%/dist/.done: examples/%/node_modules/.done sdkgen/typescript/dist/index.js $(wildcard examples/*-typescript/*.ts)
	npm run --silent build --prefix examples/$*
	@touch $@

# Servers that others wrote.
SERVERS := test/interop/servers/node_modules/.done test/interop/servers/2024/node_modules/.done test/interop/servers/.venv/.done \
	test/interop/servers/2025/.venv/.done \
	test/interop/servers/both/go/target/.done test/interop/servers/both/rust/target/.done $(JAVA)

test/interop/servers/both/go/target/.done: $(addprefix test/interop/servers/both/go/,main.go go.mod go.sum)
	cd $(<D) && $(GO) build -o target/both .
	@touch $@

test/interop/servers/both/rust/target/.done: $(addprefix test/interop/servers/both/rust/,src/main.rs src/bin/tasks.rs Cargo.toml Cargo.lock)
	cargo build --quiet --locked --manifest-path test/interop/servers/both/rust/Cargo.toml
	@touch $@

.PHONY: build
build: ## build bin/mcpbridge and the Go examples
	$(GO) build -ldflags '-X main.version=$(VERSION)' -o bin/mcpbridge ./cmd/mcpbridge
	@for dir in $(wildcard examples/*-go); do $(GO) build -o bin/$${dir##*/} ./$$dir; done

.PHONY: image
image: ## build the container image, for amd64 and arm64, as an OCI layout in dist/image
	for arch in amd64 arm64; do CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -buildvcs=false \
		-ldflags '-s -w -X main.version=$(VERSION)' -o bin/image/$$arch/mcpbridge ./cmd/mcpbridge; done
	cd tools/image && $(GO) build -o ../../bin/image/image .
	$(IMAGE) -out dist/image

# The time is that of the commit, so that two builds have the same bytes.
IMAGE = bin/image/image -bin bin/image -version '$(VERSION)' -created $$(git log -1 --format=%ct)

PREFIX ?= /usr/local

.PHONY: install
install: build ## install the command into PREFIX, /usr/local by default
	install -d '$(DESTDIR)$(PREFIX)/bin'
	install -m 755 bin/mcpbridge '$(DESTDIR)$(PREFIX)/bin/mcpbridge'

.PHONY: demo
demo: ## call the Python example with real clients of both eras; KEEP=1 keeps serving
	@test -e .venv/.done -a -e test/interop/ts/node_modules/.done || echo "demo: installing what it needs takes about a minute"
	@$(MAKE) --silent --no-print-directory .venv/.done test/interop/ts/node_modules/.done build
	@KEEP='$(KEEP)' tools/demo

# The longest first.
TESTS := test-go test-interop-ts test-interop-go test-attack test-packages test-release test-examples test-python test-sdk-java test-sdk-typescript test-readme test-generated

.PHONY: test
test: ## run every test, in parallel: JOBS=1 runs one target after the other
	@MAKE='$(MAKE)' tools/legs $(TESTS)

.PHONY: ci
ci: ## what CI runs: tests and linters in parallel, then the conformance suite beside the laws of survive
	@MAKE='$(MAKE)' tools/legs $(TESTS) test-languages test-image lint
	@MAKE='$(MAKE) ARGS=-laws' tools/legs conformance survive

.PHONY: test-generated
test-generated: .venv/.dev bin/buf sdkgen/typescript/node_modules/.done
	tools/check-generated

# More at a time than there are cores, because tests wait for programs and timers.
.PHONY: test-go
test-go: $(TESTED) setup-java build
	$(GO) test -race -timeout 20m -p 4 -parallel 4 ./...

.PHONY: test-python
test-python: .venv/.dev build
	cd sdkgen/python && python -m pytest -q

.PHONY: test-sdk-typescript
test-sdk-typescript: $(TYPESCRIPT) build
	cd sdkgen/typescript && npx --no-install vitest run
	npm test --prefix examples/watch-typescript

# It does not package: other targets run the archives in the meantime.
.PHONY: test-sdk-java
test-sdk-java: $(JAVA) build
	$(MVN) test

bin/grpcurl: tools/grpcurl/go.mod
	$(GO) build -modfile=$< -o $@ github.com/fullstorydev/grpcurl/cmd/grpcurl

bin/buf: tools/buf/go.mod
	$(GO) build -modfile=$< -o $@ github.com/bufbuild/buf/cmd/buf

.PHONY: test-interop
test-interop: test-interop-go test-interop-ts

.PHONY: test-interop-go
test-interop-go: $(TESTED) build $(SERVERS) test/bench/typescript/node_modules/.done test/bench/python/.venv/.done
	@for dir in $(PEER_MODULES); do \
		echo "(cd $$dir && go test ./...)"; (cd $$dir && $(GO) test ./...); \
	done

.PHONY: test-interop-ts
test-interop-ts: $(TESTED) build bin/grpcurl $(SERVERS)
	npm test --prefix test/interop/ts

.PHONY: test-attack
test-attack: $(TESTED) setup-java build ## run every attack of test/survive/attack against the real bridge: two minutes
	cd test/survive && $(GO) run ./attack -bin ../../bin/mcpbridge

.PHONY: test-readme
test-readme: $(TESTED) build
	tools/check-readme

# In parallel, these wait for one that writes what they read: README.md has Maven build the Java SDK, tests in TypeScript
# write programs into their directory, and only one Maven at a time may write into its local repository.
ifdef LEGS
test-readme: | test-sdk-java
test-packages: | test-readme
lint-sdk-typescript: | test-sdk-typescript
test-image: | test-languages # both install Debian packages
endif

# dist/binaries has the programs, as OS-ARCH/mcpbridge (mcpbridge.exe for Windows).
.PHONY: release
release: ## build the programs, archives and packages of a release into dist
	cd tools/release && $(GO) run . -version '$(VERSION)'
	@$(MAKE) --no-print-directory packages

.PHONY: test-release
test-release:
	cd tools/release && $(GO) test -timeout 30m ./...

.PHONY: packages
packages: tools/packaging/.venv/.done sdkgen/typescript/node_modules/.done ## package the SDKs with the programs in dist/binaries, into dist/packages
	tools/packaging/.venv/bin/python tools/packages dist/binaries dist/packages

# The packages of this machine's platform, installed.
.PHONY: test-packages
test-packages: tools/packaging/.venv/.done sdkgen/typescript/node_modules/.done
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o .tmp/packages/binaries/$$($(GO) env GOOS)-$$($(GO) env GOARCH)/ ./cmd/mcpbridge
	tools/packaging/.venv/bin/python tools/packages .tmp/packages/binaries .tmp/packages
	tools/check-packages .tmp/packages

.PHONY: test-examples
test-examples: $(TESTED) setup-java build examples/watch-typescript/node_modules/.done ## check every example that is a backend with `mcpbridge verify`
	python tools/check-examples

.PHONY: test-languages
test-languages: .venv/.dev bin/buf test/interop/ts/node_modules/.done build ## build, verify and call the examples in Rust, C++, Ruby and Kotlin
	python tools/check-examples plain-rust plain-cpp plain-ruby plain-kotlin

.PHONY: test-image
test-image: image ## check the container image and run it; as root, on Debian
	CGO_ENABLED=0 $(GO) build -o bin/image/echo-go ./examples/echo-go
	$(IMAGE) -out bin/image/second
	$(PYTHON) tools/check-image bin/image/second bin/image

.PHONY: lint
lint: lint-commits lint-go lint-platforms lint-proto lint-python lint-ts lint-sdk-typescript lint-workflows ## run every linter, and check the contract for breaking changes

.PHONY: lint-commits
lint-commits:
	cd tools && $(PYTHON) -m unittest -q check_subjects_test
	$(PYTHON) tools/check_subjects.py

.PHONY: lint-go
lint-go:
	@unformatted=$$($(GO) tool -modfile=tools/go.mod gofumpt -l $$(git ls-files --cached --others --exclude-standard -- '*.go' ':!sdkgen/go/gen')); \
		test -z "$$unformatted" || { printf 'not formatted, run make format:\n%s\n' "$$unformatted" >&2; exit 1; }
	$(GOLANGCI) run ./...
	@for dir in $(PEER_MODULES) tools/release; do \
		echo "(cd $$dir && golangci-lint run ./...)"; (cd $$dir && $(GOLANGCI) run -c $(CURDIR)/.golangci.yml ./...); \
	done

.PHONY: lint-platforms
lint-platforms:
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...

.PHONY: lint-proto
lint-proto: bin/buf
	bin/buf lint
	bin/buf format --diff --exit-code
	tools/check-breaking

.PHONY: lint-python
lint-python: .venv/.dev
	cd sdkgen/python && ruff check . && ruff format --check . && mypy
	cd sdkgen/python && ruff check $(RUFF_BESIDE) $(PYTHON_BESIDE) && ruff format --check --config pyproject.toml $(PYTHON_BESIDE)

.PHONY: lint-sdk-typescript
lint-sdk-typescript: $(TYPESCRIPT)
	npm run --silent check --prefix sdkgen/typescript
	npm run --silent check --prefix examples/watch-typescript

.PHONY: lint-ts
lint-ts: test/interop/ts/node_modules/.done
	npm run --silent check --prefix test/interop/ts

.PHONY: lint-workflows
lint-workflows:
	$(GO) tool -modfile=tools/go.mod actionlint -shellcheck= -pyflakes=

.PHONY: format
format: .venv/.dev bin/buf ## format Go, protobuf and Python
	$(GO) tool -modfile=tools/go.mod gofumpt -w $$(git ls-files --cached --others --exclude-standard -- '*.go' ':!sdkgen/go/gen')
	bin/buf format -w
	cd sdkgen/python && ruff check --fix . && ruff format .
	cd sdkgen/python && ruff check --fix $(RUFF_BESIDE) $(PYTHON_BESIDE) && ruff format --config pyproject.toml $(PYTHON_BESIDE)

.PHONY: generate
generate: .venv/.dev bin/buf sdkgen/typescript/node_modules/.done ## regenerate the stubs from proto/
	bin/buf generate

.PHONY: bench
bench: $(TESTED) setup-java build test/bench/typescript/node_modules/.done test/bench/python/.venv/.done ## measure, against a floor and the official SDKs; ARGS="-rounds 1 -duration 1s" for a quick look
	cd test/bench && $(GO) run . -bin ../../bin -python ../../.venv/bin/python -out bench.json $(ARGS)

.PHONY: conformance
conformance: $(TESTED) setup-java build ## run the official conformance suite, as a server and as a client
	test/conformance/run

.PHONY: survive
survive: build ## inject faults under load, and count lost calls; ARGS="-only R1,R8" for some goals
	cd test/survive && $(GO) run . -bin ../../bin/mcpbridge $(ARGS)

.PHONY: survive-long
survive-long: build ## like survive, with as many cycles as the goals require: some hours
	cd test/survive && $(GO) run . -bin ../../bin/mcpbridge -long $(ARGS)

.PHONY: mutate
mutate: ## build mcpbridge with one defect at a time, and check that survive, test-attack or a test detects it; ARGS="-only TEXT"
	cd test/survive && $(GO) run ./mutate $(ARGS)

# How long each target, and which of them: FUZZ='jsonrpc FuzzParse', a regular expression.
FUZZTIME ?= 30s
FUZZ ?= .

.PHONY: fuzz
fuzz: ## fuzz every parser; FUZZTIME=10m for longer, FUZZ=jsonrpc for some
	GO='$(GO)' tools/fuzz '$(FUZZTIME)' '$(FUZZ)'

.PHONY: clean
clean: ## remove built and installed files
	rm -rf bin dist .venv sdkgen/java/target examples/*-java/target test/bench/java/target test/interop/ts/node_modules test/interop/servers/{node_modules,2024/node_modules,.venv,2025/.venv,java/target,both/go/target,both/rust/target} test/conformance/node_modules test/bench/typescript/node_modules test/bench/python/.venv tools/packaging/.venv .tmp sdkgen/typescript/{node_modules,dist} examples/*-typescript/{node_modules,dist,gen} examples/plain-*/{proto,gen,target} examples/plain-cpp/{backend,client,*.o}
