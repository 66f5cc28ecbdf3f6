"""Which files and variables may hold a secret."""

from __future__ import annotations

import pytest

from hpclaunch.core.secret_names import content_reason, file_reason, is_public_variable

SECRET_FILES = (
    *(
        "server.pem",
        "tls/Server.KEY",
        "id_rsa",
        "id_ed25519.pub",
        ".env",
        ".env.local",
        "prod.env",
        ".netrc",
        ".pgpass",
    ),
    *("password.txt", "my-passwords", "db_secret.yaml", "credentials", "credentials.json", "hf_token", "token.txt"),
    *("kubeconfig", "kubeconfig-prod.yaml", ".aws/config", "a/.ssh/config", ".git/config", "service_account-1.json"),
    *(
        ".pgpass",
        "wandb_api_key",
        "api-key.txt",
        "store.p12",
        "x.kdbx",
        "terraform.tfstate",
        ".npmrc",
        ".pypirc",
        "private_key",
    ),
)
ORDINARY_FILES = (
    *("train.py", "tokens.py", "secret_sharing.cpp", "tokenizer.json", "vocab.txt", "keys/model.py", "monkey.txt"),
    *("environment.yaml", "config.yaml", "README.md", "data.csv", "net/token_embedding.py", "passwords_demo.ipynb"),
)


@pytest.mark.parametrize("name", SECRET_FILES)
def test_a_file_that_looks_like_a_secret_has_a_reason(name: str) -> None:
    assert file_reason(name)


@pytest.mark.parametrize("name", ORDINARY_FILES)
def test_an_ordinary_file_has_none(name: str) -> None:
    assert file_reason(name) == ""


@pytest.mark.parametrize("kind", ["RSA ", "EC ", "", "OPENSSH ", "ENCRYPTED ", "DSA "])
def test_a_private_key_is_known_by_its_first_line(kind: str) -> None:
    assert content_reason(f"# x\n-----BEGIN {kind}PRIVATE KEY-----\nMII".encode()) == "it holds a private key"
    assert content_reason(b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n")
    assert content_reason(b"-----BEGIN CERTIFICATE-----\nMII") == content_reason(b"x = 1\n") == ""


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "NCCL_DEBUG", "TF_USE_LEGACY_KERAS", "PATH", "HPCLAUNCH_SIGNAL"])
def test_a_known_setting_is_public(name: str) -> None:
    assert is_public_variable(name)


@pytest.mark.parametrize(
    "name",
    [
        "TOKEN",
        "WANDB_API_KEY",
        "MY_SETTING",
        "NCCL_TOKEN",
        "HPCLAUNCH_PASSWORD",
        "SLURM_JWT",
        "OMP",
        "XPATH",
        "TF_AUTH",
    ],
)
def test_every_other_variable_is_not(name: str) -> None:
    assert not is_public_variable(name)
