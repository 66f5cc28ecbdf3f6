"""What a user's own settings may say, and reading them; they never hold a secret."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hpclaunch.fileformat import Line, read

SETTINGS_FILE = "settings.yaml"
_SBATCH_VARIABLES = {"account": "SBATCH_ACCOUNT", "partition": "SBATCH_PARTITION", "qos": "SBATCH_QOS"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSettings:
    """What a user wants at one site, or everywhere."""

    account: Line | None = None
    partition: Line | None = None
    qos: Line | None = None
    runs_dir: Line | None = None
    data_dir: Line | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(SiteSettings):
    """The settings file: values for every site, and under ``sites`` those for one."""

    site: Line | None = None
    sites: dict[str, SiteSettings] = field(default_factory=dict)

    def value(self, key: str, site: str) -> str | None:
        """Return the value for this site, else the one for every site, else None."""
        special: str | None = getattr(self.sites.get(site, SiteSettings()), key)
        general: str | None = getattr(self, key)
        return special if special is not None else general


def load_settings(folder: Path) -> Settings:
    """Return the user's settings; an absent file is an empty one. Raises InvalidFile with every fault."""
    path = folder / SETTINGS_FILE
    return read(path, Settings) if path.is_file() else Settings()


def sbatch_variables(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return key -> (variable, value) for the SBATCH_* variables that say what the user wants.

    They count only outside a job: inside one they are Slurm's own echo of how that job was started.
    """
    if "SLURM_JOB_ID" in environment:
        return {}
    return {key: (name, environment[name]) for key, name in _SBATCH_VARIABLES.items() if environment.get(name)}
