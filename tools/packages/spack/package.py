# SPDX-License-Identifier: MIT
# ruff: noqa: F403, F405
"""hpclaunch for Spack: packages/py_hpclaunch/package.py of a repository of packages.

sha256 is that of the sdist in SHA256SUMS of the release.
"""

from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyHpclaunch(PythonPackage):
    """From a training script to a correct, readable, multi-node Slurm run with one command."""

    homepage = "https://github.com/hpclaunch/hpclaunch"
    pypi = "hpclaunch/hpclaunch-0.1.0.tar.gz"

    license("MIT")

    version("0.1.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    depends_on("python@3.10:3.13", type=("build", "run"))
    depends_on("py-hatchling@1.27:", type="build")
    depends_on("py-hatch-fancy-pypi-readme@24.1:", type="build")

    depends_on("py-typer@0.15.4:0.27", type=("build", "run"))
    depends_on("py-jinja2@3.1.5:", type=("build", "run"))
    depends_on("py-pyyaml@6.0.2:", type=("build", "run"))
    depends_on("py-rich@13.7:", type=("build", "run"))
    depends_on("py-submitit@1.5.2:1", type=("build", "run"))
    depends_on("py-pathspec@0.12:", type=("build", "run"))
    depends_on("py-backports-tarfile@1.2:", type=("build", "run"), when="^python@:3.10.11")
    depends_on("py-backports-tarfile@1.2:", type=("build", "run"), when="^python@3.11:3.11.3")
