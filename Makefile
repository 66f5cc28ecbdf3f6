# make demo: set up, and train on this machine. make test: set up, and pass the tests. See README.md.
.PHONY: demo test lint setup setup-dev clean

demo: setup
	tools/demo.sh

# Two processes: the tests on the cluster wait more than they compute.
test: setup-dev
	.venv/bin/python -m pytest -n 2 $(TESTS)

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
