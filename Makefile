# Tasks of development. `make` without a target lists them.

CARGO     ?= cargo
ROUGHLINK ?= target/release/roughlink
VENV      ?= .venv
# Paper that `make reproduce` recomputes: v2g, wave, avoca, plc or all.
PAPER     ?= all
RESULTS   ?= $(if $(filter all,$(PAPER)),results,results/$(PAPER))
# FULL=1 lets `make reproduce` also run the other readings of the V2G paper, which takes ten minutes, and
# `make validate` all random comparisons and the whole table against ns-3, which takes hours.
FULL      ?=
RANDOM    := $(if $(FULL),,--seeds 4 --runs 2 --bytes 2000000)
PAPERS    := $(if $(FULL),v2g wave avoca plc)
TABLE     := $(if $(FULL),,--seeds 3 --bytes 10000000 --cc newreno illinois --loss 0.25 5)
FUZZ_TIME ?= 120
HOSTILE_FILES ?= 20000
KILLS ?= 50
# Commit whose results `make unchanged` compares with those of the working tree.
REV ?= HEAD

.PHONY: help reproduce build kernel release test check deny docs site notebooks bench validate fuzz hostile kills \
	structure unchanged wheel packages clean

help:
	@echo 'make reproduce   build, recompute all four papers and write results/index.html; PAPER=v2g for one paper,'
	@echo '                 FULL=1 for the other readings of V2G, too'
	@echo 'make release     build the program for release, with profile-guided optimization; takes minutes'
	@echo 'make kernel      build target/release/roughlink with the algorithms for the Linux kernel'
	@echo 'make test        set up, then run all tests'
	@echo 'make wheel       build the Python package for installation: target/wheels'
	@echo 'make packages    build and try a Debian package, an image file and the wheel: target/packages'
	@echo 'make check       check formatting, lints, wide lines and names used twice'
	@echo 'make deny        check licenses, sources and advisories of all dependencies'
	@echo 'make docs        write the reference pages that are generated from the sources'
	@echo 'make site        build the documentation as a site with search and reports: target/site/html'
	@echo 'make notebooks   execute the notebooks and write their outputs'
	@echo 'make bench       run the benchmarks'
	@echo 'make validate    compare with ns-3 3.44 and Linux 6.18; FULL=1 for the long form'
	@echo 'make fuzz        fuzz each target for FUZZ_TIME=$(FUZZ_TIME) s'
	@echo 'make hostile     try HOSTILE_FILES=$(HOSTILE_FILES) hostile scenarios, result folders and grids'
	@echo 'make kills       kill each command KILLS=$(KILLS) times, and check what is left; as root'
	@echo 'make structure   measure how entangled the sources are, and which files an addition changes'
	@echo 'make unchanged   compare all results with those of commit REV=$(REV)'
	@echo 'make clean       remove all build products, but not results/'

build:
	@.ci/setup build
	$(CARGO) build --release --locked --bin roughlink

kernel:
	@.ci/setup build kernel
	.ci/with-kernel must $(CARGO) build --release --locked --bin roughlink

release:
	@.ci/setup build
	@.ci/release

reproduce: build
	target/release/roughlink reproduce $(PAPER) -o $(RESULTS)
ifneq ($(FULL),)
	python3 validation/readings.py -o $(RESULTS)/readings
endif

# The last lines are the sum over all Rust tests.
test: SHELL := /bin/bash
test: .SHELLFLAGS := -o pipefail -c
test:
	@.ci/setup build tests kernel python; mkdir -p target
	.ci/with-kernel $(CARGO) test --workspace --locked --no-fail-fast 2>&1 | tee target/test.log
	.ci/python test
	@.ci/summary target/test.log

wheel:
	@.ci/setup build python
	.ci/python wheel

packages:
	@.ci/setup build kernel python
	.ci/packages

check:
	.ci/style
	git apply --check validation/dummies/*.patch
	@.ci/setup build kernel
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	.ci/with-kernel $(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --bin roughlink --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' .ci/with-kernel $(CARGO) doc --workspace --no-deps \
		--document-private-items --locked
	@if command -v c++ >/dev/null; then set -x; \
	$(CARGO) clippy --manifest-path fuzz/Cargo.toml --target-dir target/fuzz --locked -- -D warnings; \
	else echo 'skipped: the fuzz targets need a C++ compiler'; fi

deny:
	@.ci/setup build
	@.ci/deny

docs:
	@.ci/setup build
	INSTA_UPDATE=always $(CARGO) test -p roughlink-cli --locked --lib reference
	python3 site/reference.py

site: build
	@.ci/setup build python
	.ci/site

notebooks:
	@.ci/setup build python
	.ci/python notebooks

bench:
	@.ci/setup build
	$(CARGO) bench -p roughlink-core --locked --bench engine --bench reading

validate: $(if $(filter target/release/roughlink,$(ROUGHLINK)),build)
	python3 validation/linux.py --roughlink $(ROUGHLINK) --strict
	@.ci/with-ns3 $(VENV) validation/segments.py --roughlink $(ROUGHLINK) --link-overhead 2 --strict
	@.ci/with-ns3 $(VENV) validation/segments.py --roughlink $(ROUGHLINK) --link-overhead 2 --sack --strict
	@.ci/with-ns3 $(VENV) validation/bbr.py --roughlink $(ROUGHLINK) --link short long --strict
	@.ci/with-ns3 $(VENV) validation/differential.py --roughlink $(ROUGHLINK) $(RANDOM)
	@.ci/with-ns3 $(VENV) validation/table.py --roughlink $(ROUGHLINK) $(TABLE)
	python3 validation/handover.py --roughlink $(ROUGHLINK) --strict
	python3 validation/results.py --roughlink $(ROUGHLINK) --strict $(PAPERS)

fuzz:
	@.ci/setup build fuzz
	fuzz/run for $(FUZZ_TIME)

hostile:
	@.ci/setup build python
	.ci/python build
	python3 validation/hostile.py --roughlink target/debug/roughlink --files $(HOSTILE_FILES)

kills: kernel
	python3 validation/kills.py --kills $(KILLS)

structure:
	@.ci/setup build
	python3 validation/structure.py --strict

unchanged:
	@.ci/setup build
	python3 validation/unchanged.py $(REV)

clean:
	$(CARGO) clean
	rm -rf validation/ns3/build validation/.cache $(VENV)
