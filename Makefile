# Tickstone: every command a developer needs. `make` lists them.
#
# `demo` and `test` set up what they need themselves. Both build the `dev` profile, so that one set of
# compiled dependencies serves them both (docs/decisions/0002-build-profiles.md).

CARGO ?= cargo
PYTHON ?= python3
VENV := .venv
BIN := $(or $(CARGO_TARGET_DIR),target)/debug/tickstone
RELEASE_BIN := $(or $(CARGO_TARGET_DIR),target)/release/tickstone
# `make python` builds the Python package in release; PROFILE=dev is quick to build and slow to run.
PROFILE ?= release
PACKAGE := crates/python/python/tickstone
# Files of Python tests side by side.
PARALLEL := -n auto --dist loadfile
SBOM := $(or $(CARGO_TARGET_DIR),target)/sbom
DEV_LIBRARY := $(or $(CARGO_TARGET_DIR),target)/debug/lib_tickstone.so
export PATH := $(HOME)/.cargo/bin:$(PATH)

# LINTED=1: every build is one by clippy, whose warnings are errors, and nothing is checked beside it.
ifdef LINTED
export RUSTC_WORKSPACE_WRAPPER := clippy-driver
export CLIPPY_ARGS := -D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
endif

.DEFAULT_GOAL := help
.PHONY: help setup build release dist sizes tidy demo serve python python-dev test lint fmt test-rust test-planted simulate soak fuzz miri asan arm deny sbom test-python test-python-package bench clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: ## check the compiler and the tools, and install what is missing
	@PYTHON="$(PYTHON)" CARGO="$(CARGO)" sh scripts/setup.sh compiler

build: setup ## build the tickstone program (dev profile)
	@echo "==> building tickstone; from nothing this compiles DataFusion, about 14 minutes on 2 cores"
	$(CARGO) build --locked -p tickstone

release: setup ## build the tickstone program (release profile)
	@echo "==> building tickstone in release; from nothing about 20 minutes on 2 cores"
	$(CARGO) build --locked --release -p tickstone

dist: setup $(VENV)/ready ## what is shipped, in build/dist: the program in a tarball and the Python wheel, stripped
	@echo "==> building what is shipped; from nothing about 40 minutes on 2 cores"
	CARGO="$(CARGO)" VENV="$(VENV)" sh scripts/dist.sh

sizes: ## how much code each crate makes, of the last release build
	$(PYTHON) scripts/sizes.py $(or $(CARGO_TARGET_DIR),target)/release/deps

demo: build ## build, make a million ticks, import them, analyse them
	@echo "==> tickstone demo"
	$(BIN) demo $(ARGS)

serve: build ## the demo's million ticks behind the server's ports, until Ctrl-C; ARGS="--http-port 9001"
	@[ -d tickstone-demo/tickstone-data ] || $(BIN) demo --keep
	$(BIN) serve --data tickstone-demo/tickstone-data $(ARGS)

test: lint test-rust test-planted test-python test-python-package ## lint, then all tests: Rust, SQL against DuckDB, Python, documentation
	@echo "==> all tests passed"

tidy: ## which module imports which, files, names and links: what no compiler checks
	$(PYTHON) tests/tidy/tidy.py

lint: setup ## tidy, formatting and clippy, warnings are errors
	@PYTHON="$(PYTHON)" CARGO="$(CARGO)" sh scripts/setup.sh lint
	@echo "==> layers, files and names (tests/tidy)"
	$(PYTHON) tests/tidy/tidy.py
	@echo "==> features of crates below DataFusion"
	CARGO="$(CARGO)" $(PYTHON) scripts/pinned.py
	@echo "==> cargo fmt --check"
	$(CARGO) fmt --all --check
ifndef LINTED
	@echo "==> cargo clippy; from nothing this checks all dependencies, about 5 minutes on 2 cores"
	$(CARGO) clippy --locked --all-targets -- -D warnings
	$(CARGO) clippy --locked -p tickstone-python -- -D warnings
endif

deny: setup ## licences, bans, sources and known vulnerabilities of all dependencies (deny.toml)
	@CARGO="$(CARGO)" sh scripts/setup.sh deny
	@echo "==> licences, bans and sources"
	$(CARGO) deny --locked check --hide-inclusion-graph licenses bans sources
	@echo "==> advisories"
	@if CARGO="$(CARGO)" sh scripts/setup.sh advisories; then $(CARGO) deny --locked --offline check advisories; fi

# For this platform. The tool writes beside each Cargo.toml, so it runs on a copy of the crates.
sbom: setup ## what the program and the Python package are made of, as CycloneDX JSON in target/sbom
	@CARGO="$(CARGO)" sh scripts/setup.sh sbom
	@$(CARGO) metadata --locked --format-version 1 >/dev/null
	@rm -rf $(SBOM) && mkdir -p $(SBOM)/copy
	@tar -cf - --exclude='*.so' Cargo.toml Cargo.lock crates | tar -xf - -C $(SBOM)/copy
	@cd $(SBOM)/copy && $(CARGO) cyclonedx --quiet --format json --spec-version 1.5
	@from=$$(cd $(SBOM)/copy && pwd -P); for package in tickstone/tickstone python/tickstone-python; do \
		sed "s|$$from||g" $(SBOM)/copy/crates/$$package.cdx.json > $(SBOM)/$${package#*/}.cdx.json || exit 1; \
		echo "$(SBOM)/$${package#*/}.cdx.json"; \
	done
	@rm -rf $(SBOM)/copy

fmt: ## format all Rust code
	$(CARGO) fmt --all

test-rust: setup ## Rust tests, SQL tests included
	@echo "==> cargo test; from nothing this compiles DataFusion, about 14 minutes on 2 cores"
	$(CARGO) test --locked

test-planted: ## bugs planted in the engine, which the simulator must find
	@for bug in planted-early-acknowledgement planted-unsynced-rename; do \
		echo "==> $$bug"; \
		$(CARGO) test --locked -p tickstone-sim --features $$bug --test planted || exit 1; \
	done

simulate: ## the simulator for an hour, in release; ARGS="--seeds 1.. --minutes 600" for longer
	$(CARGO) run --locked --release -p tickstone-sim -- $(or $(ARGS),--seeds 1.. --minutes 60)

soak: build python-dev ## long forms of tests: SEEDS=20000 of the simulator, SECONDS=300 of readers and of kills under load, STATEMENTS=100000 against DuckDB and blindfolded
	@CARGO="$(CARGO)" sh scripts/soak.sh simulator $(or $(SEEDS),20000)
	@CARGO="$(CARGO)" sh scripts/soak.sh readers $(or $(SECONDS),300)
	@TICKSTONE="$(abspath $(BIN))" VENV="$(VENV)" sh scripts/soak.sh kills $(or $(SECONDS),300)
	@CARGO="$(CARGO)" sh scripts/soak.sh followers $(or $(FOLLOWERS),1000)
	@CARGO="$(CARGO)" sh scripts/soak.sh views $(or $(VIEWS),1000)
	@TICKSTONE="$(abspath $(BIN))" VENV="$(VENV)" sh scripts/soak.sh statements $(or $(STATEMENTS),100000)

fuzz: ## every decoder on made-up bytes under AddressSanitizer, TIME=600 seconds each; needs nightly and cargo-fuzz
	sh fuzz/seeds.sh
	@for target in $$(cd fuzz && $(CARGO) +nightly fuzz list); do \
		echo "==> $$target"; \
		(cd fuzz && $(CARGO) +nightly fuzz run $$target -- -max_total_time=$(or $(TIME),600) -rss_limit_mb=2048) || exit 1; \
	done

asan: ## the engine's unit tests under AddressSanitizer, kernels for AVX2 and AVX-512 included; needs nightly
	RUSTFLAGS="-Zsanitizer=address" $(CARGO) +nightly test --locked -p tickstone-engine --lib \
		--target $$(rustc -vV | sed -n 's/^host: //p') -- $(ARGS)

miri: ## the part format's unsafe code under Miri, without vectors, CASES=1 damaged parts; needs nightly with miri
	MIRIFLAGS="-Zmiri-disable-isolation $(MIRIFLAGS)" PROPTEST_CASES=1 TICKSTONE_FUZZ_CASES=$(or $(CASES),1) \
		$(CARGO) +nightly miri test --locked -p tickstone-engine --lib -- \
		$(or $(ARGS),part::codec parts_of_any_bytes)

arm: ## the part format's tests as code for aarch64 and its NEON, emulated; needs gcc-aarch64-linux-gnu and qemu-user
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
		$(CARGO) test --locked --release -p tickstone-engine --lib --target aarch64-unknown-linux-gnu -- \
		$(or $(ARGS),part::)

test-python: build python-dev ## the program against DuckDB, clients of other systems, every example of the documentation, and the tests of tidy
	@VENV="$(VENV)" sh scripts/setup.sh clients
	@echo "==> pytest"
	TICKSTONE="$(abspath $(BIN))" $(VENV)/bin/python -m pytest $(PARALLEL) tests/tidy tests/oracle tests/docs
	TICKSTONE="$(abspath $(BIN))" $(VENV)/bin/python -m pytest $(PARALLEL) tests/clients tests/soak

python: setup $(VENV)/ready ## build the Python package and install it into .venv; PROFILE=dev builds quicker
	@echo "==> building the Python package; in release from nothing about 20 minutes on 2 cores"
	CARGO="$(CARGO)" VIRTUAL_ENV="$(abspath $(VENV))" $(VENV)/bin/maturin develop --locked \
		--profile $(PROFILE) -m crates/python/Cargo.toml

python-dev: setup $(VENV)/ready
	@echo "==> building the Python package (dev profile)"
	$(CARGO) build --locked -p tickstone-python
	install -m 644 $(DEV_LIBRARY) $(PACKAGE)/_tickstone.abi3.so
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh scripts/setup.sh package

test-python-package: python-dev ## the Python package: its types, then its tests
	@echo "==> mypy --strict"
	cd crates/python && "$(abspath $(VENV))/bin/python" -m mypy
	@echo "==> pytest"
	cd crates/python && "$(abspath $(VENV))/bin/python" -m pytest $(PARALLEL) tests

$(VENV)/ready: bench/requirements.txt crates/python/requirements-dev.txt scripts/setup.sh
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh scripts/setup.sh python
	@touch $@

bench: setup $(VENV)/ready python ## the benchmarks, in release; ARGS=--write updates docs/performance.md
	@echo "==> building tickstone and its benchmarks in release; from nothing about 20 minutes on 2 cores"
	$(CARGO) build --locked --release -p tickstone -p tickstone-query --bins --examples
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r bench/requirements-peers.txt || \
		echo "==> not all of bench/requirements-peers.txt is there: the reports say what is missing"
	TICKSTONE="$(abspath $(RELEASE_BIN))" $(VENV)/bin/python bench/run.py $(ARGS)
	$(VENV)/bin/maturin build --release --locked -m crates/python/Cargo.toml --out build/wheels
	$(VENV)/bin/python bench/python.py $(ARGS)

clean: ## remove what the build, the tests and the demo made
	rm -rf target $(VENV) build tickstone-data $(PACKAGE)/_tickstone.*so
