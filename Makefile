# The doors of the house. Each installs what it needs and is missing (see make/install).

# What rustup installed is found even where the shell does not know of it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help measure test lab bench fuzz soak mutants docs

help:
	@echo 'make measure   measure this machine for 20 seconds (ARGS="--cpu 1": more for reveille measure)'
	@echo 'make test      run every test'
	@echo 'make bench     print the figures that are promised, as ratios and counts (some minutes)'
	@echo 'make fuzz      try each reader of files on a million broken ones (RUNS=N: so many)'
	@echo "make soak      try for an hour what has to hold for long; changes the machine meanwhile (SECONDS=N ROUNDS=N)"
	@echo 'make mutants   put small faults into the code: does a test see each? (ARGS="BASE": in what changed since)'
	@echo 'make lab       run the tests in the guest with several idle states (ARGS="WORD": only those)'
	@echo 'make docs      build the book and check it'

measure:
	@make/install build
	@echo "building reveille (minutes the first time)" && cargo build --release --locked --package reveille $$(make/features)
	@make/measure $(ARGS)

test:
	@make/install test
	@make/test

lab:
	@make/install test
	@cargo build --release --locked --package reveille
	@lab/check --reveille "$${CARGO_TARGET_DIR:-target}/release/reveille" $(ARGS)

bench:
	@make/install build
	@cargo bench --quiet --locked --package reveille --bench figures

fuzz:
	@make/install build
	@fuzz/run $(RUNS)

soak:
	@make/install build
	@make/soak $(or $(SECONDS),600) $(or $(ROUNDS),1000)

mutants:
	@make/install build
	@make/mutants $(ARGS)

docs:
	@make/install build
	@cargo build --quiet --locked --package reveille $$(make/features)
	@make/docs
