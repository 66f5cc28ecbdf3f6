# make demo: set up, and train on this machine. make test: set up, and pass the tests. See README.md.
# make faults: break the test cluster on purpose. make fuzz: hostile input. Both write docs/reliability.md.
.PHONY: demo test faults fuzz lint setup setup-dev clean

demo: setup
	tools/demo.sh

# Two processes: the tests on the cluster wait more than they compute.
test: setup-dev
	.venv/bin/python -m pytest -n 2 $(TESTS)

faults: setup-dev
	HPCLAUNCH_FAULTS=all HPCLAUNCH_RELIABILITY=write .venv/bin/python -m pytest -v tests/faults/bed

fuzz: setup-dev
	HPCLAUNCH_FUZZ=100000 .venv/bin/python -m pytest -v --timeout=7200 tests/property/test_hostile.py

lint: setup-dev
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy hpclaunch
	.venv/bin/lint-imports

setup:
	@tools/setup.sh

setup-dev:
	@tools/setup.sh dev

clean:
	rm -rf .venv runs
