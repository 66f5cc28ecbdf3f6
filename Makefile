# make demo: set up, and train on this machine. make test: set up, and pass the tests. See README.md.
# make faults: break the test cluster on purpose. make fuzz: hostile input. make hostile: hostile repositories. All write docs/reliability.md.
# make long: every case of the tests that run some of theirs in make test.
.PHONY: demo test long faults fuzz hostile io lint setup setup-dev clean

# Those whose cases tests/tiers.py divides.
LONG = tests/packaging tests/horovod/test_noise_scale.py tests/horovod/test_techniques.py tests/site_environment \
	tests/slurm/test_jobs.py

demo: setup
	tools/demo.sh

# Three processes on two cores: the tests on the cluster wait more than they compute.
test: setup-dev
	.venv/bin/python -m pytest -n 3 $(TESTS)

long: setup-dev
	HPCLAUNCH_TIER=long HPCLAUNCH_TEST_SITE_ENVIRONMENT=1 .venv/bin/python -m pytest -v $(LONG)

faults: setup-dev
	HPCLAUNCH_FAULTS=all HPCLAUNCH_RELIABILITY=write .venv/bin/python -m pytest -v tests/faults/bed

fuzz: setup-dev
	HPCLAUNCH_FUZZ=100000 .venv/bin/python -m pytest -v --timeout=7200 tests/property/test_hostile.py

io: setup-dev
	HPCLAUNCH_IO=all .venv/bin/python -m pytest -v -s tests/cli/test_failing_io.py tests/processes/runs/test_list_of_runs.py

hostile: setup-dev
	HPCLAUNCH_HOSTILE=all .venv/bin/python -m pytest -v tests/hostile

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
