"""Which files and variables may hold a secret."""

from __future__ import annotations

import pytest

from hpclaunch.core.secret_names import (
    content_reason,
    file_reason,
    is_public_variable,
    is_secret_argument,
    is_text,
    key_reason,
)

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
COPIES_AND_PROGRAMS = (
    *("kaggle.json", "server.pem.bak", "pass.txt", "server.pem~", "server.key.old"),
    *(".netrc.bak", ".my.cnf.old", "terraform.tfstate.backup", ".databrickscfg", ".rclone.conf"),
    *(".comet.config", ".vault_pass", ".dockerconfigjson", "github_pat.txt", "hf_token_old.txt"),
    *("my_token_file.txt", "wandb_key.txt", "keys.txt", "gcp-key.json", "auth.json"),
    *("cookies.txt", "jwt.txt", "oauth.json", ".bash_history", "pip.conf"),
    *(".Renviron", ".server.key.swp", "#server.key#", "id_rsa.1", "a_token.2024.txt"),
    *("token", "secrets.toml", ".env_old", "x509up_u1000", "krb5cc_0"),
    *(
        ".kaggle/x",
        ".secrets/HF",
        "key.txt",
        "ssh-key.txt",
        "hf_tokens.json",
        "encryption_keys.csv",
        "a.api.tokens.txt",
    ),
)
ORDINARY_FILES = (
    *("train.py", "tokens.py", "secret_sharing.cpp", "tokenizer.json", "vocab.txt", "keys/model.py", "monkey.txt"),
    *("environment.yaml", "config.yaml", "README.md", "data.csv", "net/token_embedding.py", "passwords_demo.ipynb"),
    *("special_tokens_map.json", "added_tokens.json", "tokenizer_config.json", "train_tokens.bin", "tokens.npy"),
    *("history.csv", "checkpoint.old", "train.py.bak", "data.1", "keyboard.txt", "authors.md", "bypass.txt", "~"),
    *("secrets.py", "secrets.sh", "credentials.py", "set_tokens.sh", "first_pass.txt", "keys.npz"),
    *("tokens.txt", "tokens.json", "keys.csv", "answer_key.csv", "lang/tokens.txt", "pad_token.txt", "sort-key.json"),
)


@pytest.mark.parametrize("name", [*SECRET_FILES, *COPIES_AND_PROGRAMS])
def test_a_file_that_looks_like_a_secret_has_a_reason(name: str) -> None:
    assert file_reason(name)


OF_EACH_KIND = (
    *("a.pfx", "a.p8", "a.jks", "a.keystore", "a.ppk", "a.der", "a.gpg", "a.asc", "a.age", "a.keytab", "id_dsa"),
    *("id_ecdsa.pub", "identity", "known_hosts", "authorized_keys", ".Xauthority", ".ICEauthority", ".envrc"),
    *("_netrc", "netrc", ".mylogin.cnf", ".htpasswd", ".git-credentials", "pip.ini", ".condarc", ".dockercfg"),
    *("x.kubeconfig", ".s3cfg", ".boto", "prod.tfvars", "x.ovpn", "rclone.conf", ".terraformrc", ".sentryclirc"),
    *(".lftprc", ".passwd-s3fs", "my-vault-token.bin", ".python-history", ".psql_history", "my-passwd.bin"),
    *("passphrase.bin", "client_secret.bin", "credential.bin", "apikey.bin", "private-key.bin"),
    *("service-account-1.json", ".gnupg/x", ".azure/x", ".gcloud/x", ".kube/x", ".docker/x", ".config/x"),
    *("#.netrc#", ".id_rsa.swp", ".token", ".hf_token", ".pass", ".key"),
    *(f"hf_token{suffix}" for suffix in ("", ".txt", ".json", ".yaml", ".yml", ".ini", ".cfg", ".conf", ".toml")),
    *("hf_token.md", "hf_token.csv", "hf_token.dat"),
)
OF_NO_KIND = (
    *(f"secret.{suffix}" for suffix in ("py", "sh", "c", "cc", "cpp", "cu", "h", "hpp", "ipynb", "r", "jl", "rs")),
    *("secret.js", "secret.ts"),
    *(f"{kind}_token.txt" for kind in ("pad", "eos", "bos", "sep", "cls", "unk", "mask", "special")),
)


def test_every_kind_of_file_that_holds_secrets_is_known_and_code_is_judged_by_its_content() -> None:
    assert [name for name in OF_EACH_KIND if not file_reason(name)] == []
    assert [name for name in OF_NO_KIND if file_reason(name)] == []


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


MADE = "aB3" * 20
"""What a token may look like behind its prefix; spelled in one piece, these would be found in this file too."""
KNOWN_TOKENS = (
    *(
        "AKIA" + "ABCDEFGH12345678",
        "ghp_" + MADE[:36],
        "gho_" + MADE[:36],
        "github_pat_" + MADE[:30],
        "hf_" + MADE[:34],
    ),
    *("glpat-" + MADE[:20], "sk-" + MADE[:48], "sk-proj-" + MADE[:40], "xoxb-" + "1234567890-abc", "AIza" + MADE[:35]),
    *(f"{kind}{'ABCDEFGH12345678'}" for kind in ("ASIA", "ABIA", "ACCA")),
    *(f"gh{kind}_{MADE[:36]}" for kind in "usr"),
    *("rk" + "_live_" + MADE[:24], "xoxp-" + "1234567890-abc"),
    *("npm_" + MADE[:36], "pypi-AgE" + MADE[:60], "sk_live_" + MADE[:24], f"eyJ{MADE[:12]}.eyJ{MADE[:12]}.{MADE[:12]}"),
)
ASSIGNMENTS = (
    *(
        'password="hunter2"',
        "PASSWORD = 'hunter2'",
        '{"password": "hunter2"}',
        "password: hunter2",
        "db_passwd: 'hunter2'",
    ),
    *(
        'api_key = "abcd1234efgh"',
        "api_key: abcdefgh12345678",
        'x["WANDB_API_KEY"] = "abcd1234"',
        "passphrase = b'opensesame'",
    ),
    *(
        'wandb.login(key="' + "0123456789abcdef" * 2 + 'abcdef01")',
        '"HF_TOKEN = \\"abcd1234ef\\"\\n"',
        "export HF_TOKEN=hunter",
    ),
    *("  MY_SECRET=LEAKVAR # x", "setenv TOKEN LEAKVAR", "declare -gx API_KEY=LEAKVAR", "export WANDB_KEY=abcd1234\r"),
    *(
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYAKEX1",
        'token: str = "abcd1234"',
        "x_token=abcd1234abcd1234",
    ),
    *('"postgres://u:LEAKVAR@h/db"', "machine h login u password p", "machine h\n\tlogin u\n\tpassword p"),
)
ORDINARY_TEXT = (
    *('tokens = tokenizer("abc12345")', "max_tokens=512", 'password=os.environ["PASSWORD"]', "password = getpass()"),
    *('password = getpass("Password: ")', 'pad_token = "<pad>"', '"eos_token": "<|endoftext|>"', "token = args.token"),
    *(
        'if token == "abc12345":',
        'api_key = os.getenv("API_KEY")',
        'export HF_TOKEN="$(cat token)"',
        "export A_TOKEN=$B",
    ),
    *("secret: str = Field(...)", 'key = "validation_loss"', "MAX_TOKENS=512", 'unk_token: "[UNK]"', "EOS_TOKEN=50256"),
    *("https://user:password@example.org/", "https://${USER}:${PASS}@h/", "http://localhost:8080/x@y", "password="),
    *('password="your-password"', "def f(password: str, token: str): pass", 'tokenizer_name="bert-base-uncased1"'),
    *('class="sk-toggleable__content-1"', "token_ids: input", "secret_env: [HF_TOKEN]", "token = tokens2words"),
    *(
        "--token TOKEN",
        "AKIA",
        "hf_hub_download(repo)",
        "risk-" + "aB3" * 12,
        "SORT_KEY=column",
        'cache_key = "abc12345"',
    ),
    *('special_token="extra_id_0"', 'token = "facebook/opt-125m"', "model_key: resnet50-imagenet-1k"),
    *('key="encoder.layer.0.attention.self.query.weight"', 'auth = "model.v12.bin"', "PAD_TOKEN=extra_id_12"),
    *('pad_token="extra_id_12"', "MODEL_KEY=resnet50", "token: extra_ids_of_the_model_1"),
    *('login(password="Password:")', "password: <password>", 'token="{{ token1234 }}"', "eyJhbGciOi"),
)


@pytest.mark.parametrize("text", [*KNOWN_TOKENS, *ASSIGNMENTS])
def test_a_token_and_a_password_beside_its_name_are_found(text: str) -> None:
    for around in (text, f"x = 1\n{text}\ny = 2\n"):
        assert content_reason(around.encode())
        assert content_reason(around.encode("utf-16"))
        assert content_reason(around.encode("utf-8-sig"))


@pytest.mark.parametrize("text", ORDINARY_TEXT)
def test_ordinary_code_is_no_secret(text: str) -> None:
    assert content_reason(text.encode()) == content_reason(f"x\n{text}\ny\n".encode()) == ""


@pytest.mark.parametrize(
    "name", ["sort_key", "image_key", "rng_key", "--pad-token", "eos_token", "special_token", "keys"]
)
def test_an_ordinary_argument_is_none_for_a_secret(name: str) -> None:
    assert not is_secret_argument(name)


@pytest.mark.parametrize("name", ["--api-key", "key", "ssh_key", "wandb.key", "hf_token", "encryption-key", "apikey"])
def test_an_argument_for_a_secret_is_known_by_its_name(name: str) -> None:
    assert is_secret_argument(name)


def test_a_key_in_utf_16_is_found() -> None:
    key = "-----BEGIN PRIVATE KEY-----\n"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        assert key_reason(key.encode(encoding)) == content_reason(key.encode(encoding)) == "it holds a private key"


def test_weights_are_no_text() -> None:
    assert not is_text(bytes(range(256)))
    assert is_text("Übung\t1\r\n\x1b[0m\f".encode()) and is_text("text".encode("utf-16")) and is_text(b"")
    assert is_text(b"x" * 4096 + b"\x01") and not is_text(b"x" * 4095 + b"\x01"), "its beginning tells"


def test_the_lines_of_a_long_text_are_all_searched() -> None:
    lines = [f"token {number}\n" for number in range(1000)]
    assert content_reason("".join(lines).encode()) == ""
    assert content_reason("".join([*lines, "PASSWORD='hunter2'"]).encode()) == "it holds a password or a token"
