# make demo: set up, and train on this machine. make test: set up, and pass the tests. See README.md.
# make faults: break the test cluster on purpose. make fuzz: hostile input. make hostile: hostile repositories. All write docs/reliability.md.
# make long: all that CI has no time for, in parts; a release needs it (tools/long_tier.py).
# make gpu: the tests that need a GPU, with the wheel alone; PYTHON names the Python with PyTorch or JAX. Five minutes at most.
# make newer-slurm: the tests on the cluster with the Slurm and the Open MPI of Debian 13; needs root.
# make test-names: writes tests/names.txt anew, after a test was added or taken away.
# make constraints: the newest versions for the set-up, with their hashes. make release: the files of a release, in dist/.
# make once: endings of sbatch, interleavings, and many processes at once, for the same page. make mutants: changed code.
.PHONY: demo test test-names gpu long faults newer-slurm once fuzz hostile io mutants lint docs docs-serve pictures setup setup-dev constraints release clean

# What docs/reliability.md reports under "Submitted once".
ONCE = tests/processes/schedulers/slurm/test_endings_of_sbatch.py tests/processes/actions/test_interleavings.py \
	tests/processes/actions/test_resumed_at_once.py

demo: setup
	tools/demo.sh

# Three processes on two cores: the tests on the cluster wait more than they compute.
test: setup-dev
	.venv/bin/python -m pytest -n 3 $(TESTS)

# CI fails if a test of this list is gone, or if one is not in it.
test-names:
	python3 tools/named_tests.py --write

# TESTS="doctor or plan" runs a part; FIGURES names the file of the figures (gpu-figures.json).
gpu:
	@PYTHON="$(PYTHON)" TESTS="$(TESTS)" FIGURES="$(FIGURES)" WHEELS="$(WHEELS)" tools/gpu.sh

# In parts of at most 40 minutes: PARTS="ranks cluster" runs two of them, .venv/bin/python tools/long_tier.py --list names all.
PARTS =
long: setup-dev
	.venv/bin/python tools/long_tier.py $(PARTS)

# BED=test_many.py runs one file of the bed.
BED =
faults: setup-dev
	HPCLAUNCH_FAULTS=all HPCLAUNCH_RELIABILITY=write .venv/bin/python -m pytest -v tests/faults/bed/$(BED)

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

# IO='-k submit' lets the calls of one verb fail.
IO =
io: setup-dev
	HPCLAUNCH_IO=all HPCLAUNCH_RELIABILITY=write .venv/bin/python -m pytest -v -s $(IO) tests/cli/test_failing_io.py tests/processes/runs/test_list_of_runs.py

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

docs: .cache/docs-site/complete pictures
	$(MKDOCS) build --strict

docs-serve: .cache/docs-site/complete pictures
	$(MKDOCS) serve

# All pictures of the pages, in docs/pictures.
pictures: setup-dev
	.venv/bin/python tools/docs_pictures.py

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
