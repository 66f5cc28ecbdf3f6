"""What the long fuzzing once found, each by its name: `make fuzz` begins where these end."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.config.catalog import Catalog
from hpclaunch.config.site import load_site
from hpclaunch.core.errors import InvalidFile
from tests.builders import a_desk, refused

ENDLESS = 10**12


def test_a_site_file_with_a_million_million_gpus_a_node_is_refused(tmp_path: Path) -> None:
    """Planning listed them all for CUDA_VISIBLE_DEVICES, until memory was full."""
    (tmp_path / "site_configs").mkdir()
    (tmp_path / "site_configs" / "mine.yaml").write_text(
        f"""
        title: mine
        scheduler: local
        defaults: {{node_type: box}}
        node_types: {{box: {{title: it, cores_per_node: 8, gpus_per_node: {ENDLESS}}}}}
        launchers: {{default: mpirun, options: {{mpirun: {{}}}}}}
        """
    )
    with pytest.raises(InvalidFile, match=r"gpus_per_node.* is too large.*at most 1024"):
        load_site(Catalog(project=tmp_path, user=tmp_path), "mine")


def test_a_million_million_gpus_that_are_typed_are_refused() -> None:
    faults = refused(a_desk(), gpus_per_node=ENDLESS)
    assert any(f"{ENDLESS} GPUs per node requested" in fault.what for fault in faults)
