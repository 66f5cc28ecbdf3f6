# make demo: set up, and train on this machine. make test: set up, and pass the tests. See README.md.
# make faults: break the test cluster on purpose. make fuzz: hostile input. make hostile: hostile repositories. All write docs/reliability.md.
# make long: every case of the tests that run some of theirs in make test.
# make newer-slurm: the tests on the cluster with the Slurm and the Open MPI of Debian 13; needs root.
# make constraints: the newest versions for the set-up, with their hashes. make release: the files of a release, in dist/.
# make once: endings of sbatch, interleavings, and many processes at once, for the same page. make mutants: changed code.
.PHONY: demo test long faults newer-slurm once fuzz hostile io mutants lint docs docs-serve setup setup-dev constraints release clean

# What docs/reliability.md reports under "Submitted once".
ONCE = tests/processes/schedulers/slurm/test_endings_of_sbatch.py tests/processes/actions/test_interleavings.py \
	tests/processes/actions/test_resumed_at_once.py

# Those whose cases tests/tiers.py divides; site_environment runs horovod with every other TensorFlow.
LONG = tests/packaging tests/horovod tests/frameworks tests/site_environment tests/script/test_every_script.py \
	tests/faults/test_search.py $(addprefix tests/slurm/test_, broadcast.py cifar.py frameworks.py jobs.py \
	model_parallel.py node_types.py scale.py strategies.py)

demo: setup
	tools/demo.sh

# Three processes on two cores: the tests on the cluster wait more than they compute.
test: setup-dev
	.venv/bin/python -m pytest -n 3 $(TESTS)

long: setup-dev
	HPCLAUNCH_TIER=long HPCLAUNCH_TEST_SITE_ENVIRONMENT=1 HPCLAUNCH_TEST_JAX=1 HPCLAUNCH_TEST_MLFLOW=1 HPCLAUNCH_TEST_TFDS=1 .venv/bin/python -m pytest -v $(LONG)

faults: setup-dev
	HPCLAUNCH_FAULTS=all HPCLAUNCH_RELIABILITY=write .venv/bin/python -m pytest -v tests/faults/bed

newer-slurm:
	tests/cluster/newer.sh setup
	tests/cluster/newer.sh run .venv/bin/python -m pytest -v $(or $(TESTS),tests/slurm tests/faults)

once: setup-dev
	HPCLAUNCH_TIER=long HPCLAUNCH_INTERLEAVINGS=1000 HPCLAUNCH_ROUNDS=100 .venv/bin/python -m pytest -sv --timeout=7200 $(ONCE)

# A part of at most an hour; PART=2 makes other inputs, and all parts add up in tests/fuzz/results.jsonl.
PART = 1
INPUTS = 20000
WAYS =
MINUTES = 60
fuzz: setup-dev
	.venv/bin/python -m tests.fuzz.parts --part $(PART) --inputs $(INPUTS) --ways "$(WAYS)" --minutes $(MINUTES)

io: setup-dev
	HPCLAUNCH_IO=all HPCLAUNCH_RELIABILITY=write .venv/bin/python -m pytest -v -s tests/cli/test_failing_io.py tests/processes/runs/test_list_of_runs.py

hostile: setup-dev
	HPCLAUNCH_HOSTILE=all .venv/bin/python -m pytest -v tests/hostile

# cosmic-ray has a folder of its own, so .venv stays as tools/constraints.txt says. AGAIN=survived runs the survivors again.
AGAIN =
mutants: setup-dev
	.venv/bin/uv pip install --quiet --python .venv/bin/python --target .cache/mutants/tool -r pyproject.toml --extra mutants
	.venv/bin/python -m tests.mutants --again "$(AGAIN)"

# The documentation site, in site/; docs-serve shows it on http://127.0.0.1:8000. Its packages have a folder of their own.
MKDOCS = NO_MKDOCS_2_WARNING=1 PYTHONPATH=.cache/docs-site .venv/bin/python -m mkdocs
.cache/docs-site/complete: pyproject.toml | setup-dev
	.venv/bin/uv --no-config pip install --quiet --python .venv/bin/python --target .cache/docs-site -r pyproject.toml --extra docs
	touch $@

docs: .cache/docs-site/complete
	$(MKDOCS) build --strict

docs-serve: .cache/docs-site/complete
	$(MKDOCS) serve

lint: setup-dev
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy hpclaunch templates/sampler.py
	.venv/bin/lint-imports

setup:
	@tools/setup.sh

setup-dev:
	@tools/setup.sh dev

constraints: setup
	tools/constraints.sh

release: setup-dev
	.venv/bin/python tools/release.py

clean:
	rm -rf .venv runs
