"""Which files and which variables may hold a secret, by their names and by the first line of a key; it reads nothing.

Sources: the names that GitHub's gitignore templates and secret scanning, OpenSSH, and the programs themselves use.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

_FILES: tuple[tuple[str, str], ...] = (
    ("*.pem *.key *.p12 *.pfx *.p8 *.jks *.keystore *.kdbx *.ppk *.der *.gpg *.asc *.age", "the name of a key"),
    ("id_rsa* id_dsa* id_ecdsa* id_ed25519* identity known_hosts authorized_keys", "a file of SSH"),
    (".env .env.* *.env .envrc", "variables of an environment, which often hold passwords"),
    (".netrc _netrc .pgpass .my.cnf .htpasswd .git-credentials .pypirc .npmrc .dockercfg", "passwords of a program"),
    ("kubeconfig* *.kubeconfig .s3cfg .boto *.tfvars *.tfstate *.ovpn rclone.conf", "access to a service"),
    ("*password* *passwd* *passphrase* *secret* *credential* *token.* *token *tokens.* *tokens", "its name says so"),
    ("*apikey* *api_key* *api-key* *private_key* *private-key* *service_account*.json", "its name says so"),
)
"""Patterns of names, in small letters, and the reason why such a file is not packed."""
_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".config", ".git"})
_CODE = (".py", ".sh", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".ipynb", ".r", ".jl")
"""Code whose name speaks of tokens or secrets, such as ``tokens.py``, is code."""
_KEY = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-")
_SECRET_VARIABLE = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|(?:^|_)(?:PW|PASS|KEYS?|APIKEY|AUTH|COOKIE|JWT|CERT|SAS|DSN)(?:_|$)",
    re.IGNORECASE,
)
_PUBLIC_VARIABLE = re.compile(
    r"""
    (?:OMP|KMP|GOMP|MKL|OPENBLAS|NUMEXPR|NCCL|RCCL|HOROVOD|TF|KERAS|XLA|JAX|TORCH|PYTORCH|CUDA|CUDNN|NVIDIA|HIP|HSA
      |ROCR|MIOPEN|GLOO|UCX|UCC|FI|MPICH|OMPI|I_MPI|MV2|PMI|PMIX|PSM2|HDF5|MALLOC|LC|HPCLAUNCH)_\w+
    |PYTHON(?:UNBUFFERED|NOUSERSITE|PATH|HASHSEED|FAULTHANDLER|DONTWRITEBYTECODE|OPTIMIZE)
    |SLURM_(?:EXPORT_ENV|JOB_ID|CPU_BIND|MPI_TYPE|CPUS_PER_TASK)
    |CONDA_(?:DEFAULT_ENV|PREFIX)|VIRTUAL_ENV|LOADEDMODULES|LMOD_SYSTEM_NAME
    |LANG|TZ|PATH|LD_LIBRARY_PATH|TMPDIR
    """,
    re.VERBOSE,
)
"""Names whose values are settings of libraries and software, and no secrets."""


def file_reason(path: str) -> str:
    """Return why a file may hold a secret, by its relative path; empty if its name says nothing of the kind."""
    *folders, name = path.lower().split("/")
    if not _FOLDERS.isdisjoint(folders):
        return "in a folder of keys and settings"
    for patterns, reason in _FILES:
        if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
            return "" if reason == "its name says so" and name.endswith(_CODE) else reason
    return ""


def content_reason(content: bytes) -> str:
    """Return why bytes may hold a secret: they have the first line of a private key; else empty."""
    return "it holds a private key" if _KEY.search(content) else ""


def is_secret_variable(name: str) -> bool:
    """Whether the name of a variable says that its value is a secret."""
    return bool(_SECRET_VARIABLE.search(name))


def is_public_variable(name: str) -> bool:
    """Whether the value of a variable may leave the machine: its name is that of a known setting, and of no secret."""
    return bool(_PUBLIC_VARIABLE.fullmatch(name)) and not is_secret_variable(name)
