# Each target installs the packages that it needs and that are missing (see make/packages).

# Finds what rustup installed even if the shell's PATH does not have it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help measure build static install uninstall package test test-all lab bench fuzz soak mutants docs

help:
	@echo 'make measure   measure this machine for 20 seconds (ARGS="--cpu 1": more for reveille measure)'
	@echo 'make build     build all that make install installs'
	@echo 'make static    build the program without shared libraries, for --host and older user lands, and print its path'
	@echo 'make install   build and install the program, man pages, completions and the C library (PREFIX=/usr/local DESTDIR= LIBDIR=)'
	@echo 'make uninstall remove what make install installed below PREFIX, and nothing else'
	@echo 'make package   build the Debian package and print its path (DEBFULLNAME= DEBEMAIL=: its maintainer)'
	@echo 'make test      run the tests of what a change can break, and a seventh of the rest'
	@echo 'make test-all  run every test (an hour)'
	@echo 'make bench     print the figures of docs/benchmarks.md, as ratios and counts (some minutes)'
	@echo 'make fuzz      fuzz each file reader with a million inputs (RUNS=N: another number)'
	@echo "make soak      run the long tests for an hour; they change settings while they run (SECONDS=N ROUNDS=N)"
	@echo 'make mutants   mutation testing: does a test detect each fault? (ARGS="BASE": only in code changed since BASE)'
	@echo 'make lab       run the tests in the guest with several idle states (ARGS="WORD": only matching ones)'
	@echo 'make docs      build the book and check it'

measure:
	@make/packages build
	@echo "building reveille (minutes the first time)" && cargo build --release --locked --package reveille --bin reveille $$(make/features)
	@make/measure $(ARGS)

build:
	@make/packages build
	@make/build

static:
	@make/packages static
	@make/static

install:
	@make/install

uninstall:
	@make/install --undo

package:
	@make/packages package
	@make/package

test:
	@make/packages test && make/unpacked
	@make/test

test-all:
	@make/packages test && make/unpacked
	@make/test --all

lab:
	@make/packages test
	@cargo build --release --locked --package reveille
	@lab/check --reveille "$${CARGO_TARGET_DIR:-target}/release/reveille" $(ARGS)

bench:
	@make/packages build
	@cargo bench --quiet --locked --package reveille --bench figures

fuzz:
	@make/packages build
	@fuzz/run $(RUNS)

soak:
	@make/packages build
	@make/soak $(or $(SECONDS),600) $(or $(ROUNDS),1000)

mutants:
	@make/packages build
	@make/mutants $(ARGS)

docs:
	@make/packages build
	@cargo build --quiet --locked --package reveille $$(make/features)
	@make/docs
