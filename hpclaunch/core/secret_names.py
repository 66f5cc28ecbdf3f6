"""Which files and which variables may hold a secret, by their names and by what a file contains; it reads nothing.

Sources: the names that GitHub's gitignore templates, OpenSSH, and the programs themselves use; the forms of tokens that
GitHub's secret scanning, gitleaks and detect-secrets publish.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

_SAYS_SO = "its name says so"
_FILES: tuple[tuple[str, str], ...] = (
    (
        "*.pem *.key *.p12 *.pfx *.p8 *.jks *.keystore *.kdbx *.ppk *.der *.gpg *.asc *.age *.keytab",
        "the name of a key",
    ),
    ("id_rsa* id_dsa* id_ecdsa* id_ed25519* identity known_hosts authorized_keys", "a file of SSH"),
    ("krb5cc_* x509up_u* .xauthority .iceauthority", "a ticket or a proxy of a login"),
    (".env .env.* *.env .envrc .renviron", "variables of an environment, which often hold passwords"),
    (
        ".netrc _netrc netrc .pgpass .my.cnf .mylogin.cnf .htpasswd .git-credentials .pypirc .npmrc",
        "passwords of a program",
    ),
    ("pip.conf pip.ini .condarc .dockercfg *dockerconfigjson .databrickscfg .comet.config", "access to a service"),
    ("kubeconfig* *.kubeconfig .s3cfg .boto *.tfvars *.tfstate *.ovpn rclone.conf .rclone.conf", "access to a service"),
    ("kaggle.json .terraformrc .sentryclirc .lftprc .passwd-s3fs *vault_pass* *vault-token*", "access to a service"),
    (".*_history .*-history", "typed commands, which often hold passwords"),
    ("*password* *passwd* *passphrase* *secret* *credential* *apikey* *api_key* *api-key*", _SAYS_SO),
    ("*private_key* *private-key* *service_account*.json *service-account*.json cookies.txt", _SAYS_SO),
)
"""Patterns of names, in small letters, and the reason why such a file is not packed."""
_FOLDERS = frozenset(
    (".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".config", ".git", ".kaggle", ".secrets")
)
_CODE = (".py", ".sh", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".ipynb", ".r", ".jl", ".rs", ".js", ".ts")
"""Code whose name speaks of tokens or secrets, such as ``tokens.py``, is judged by its content."""
_TEXT = ("", ".txt", ".json", ".yaml", ".yml", ".ini", ".cfg", ".conf", ".toml", ".md", ".csv", ".dat")
_KEY_OWNER = (
    "(?:api|access|private|secret|auth|ssh|encryption|wandb|comet|neptune|kaggle|openai|anthropic|hf|huggingface"
    "|github|gitlab|aws|azure|gcp)"
)
"""What a key that is a secret is for; other keys sort, choose or draw (``sort_key``, ``rng_key``)."""
_TOKEN_WORD = "token" + "".join(
    rf"(?<!{kind}[-_. ]token)" for kind in ("pad", "eos", "bos", "sep", "cls", "unk", "mask", "special")
)
"""A token that may be a secret, and no word of a text."""
_FILE_WORD = re.compile(
    rf"(?:^|[-_. ])(?:{_TOKEN_WORD}|{_KEY_OWNER}[-_. ]?(?:keys?|tokens)|pat|jwt|auth|oauth2?|cookies?|pwd?)"
    r"(?:[-_. ]|$)"
)
"""Words in the name of a file of text, such as ``wandb_key.txt``, that speak of a secret."""
_WHOLE_NAMES = frozenset(("pass", "key", "keys"))
_TOKENIZER = frozenset(("special_tokens_map.json", "added_tokens.json", "token_counts.json"))
"""Files that tokenizers of languages write."""
_BACKUP = re.compile(
    r"(?:~|#|[-_. ](?:bak|backup|old|orig|original|saved?|copy|te?mp|sw[op]|prev|new|rpmsave|dpkg-old|[0-9]+))+$"
)
"""The end of the name of a copy, such as ``server.key.old``."""
_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-|\bAGE-SECRET-KEY-1[0-9A-Z]{20}"
)
_KEY_SIGNS = (b"PRIVATE KEY", b"PuTTY-User-Key", b"AGE-SECRET-KEY")
TOKEN_FORMS = r"""(?x)
    (?<![A-Za-z0-9_-])
    (?: (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])        # Amazon
      | gh[pousr]_[A-Za-z0-9]{36,} | github_pat_[A-Za-z0-9_]{22,} # GitHub
      | glpat-[A-Za-z0-9_-]{20,}                                  # GitLab
      | hf_[A-Za-z0-9]{30,}                                       # Hugging Face
      | sk-(?=[A-Za-z_-]*[0-9])(?=[a-z0-9_-]*[A-Z])[A-Za-z0-9_-]{20,}  # OpenAI, Anthropic
      | [sr]k_live_[A-Za-z0-9]{20,}                               # Stripe
      | xox[abeoprs]-[A-Za-z0-9-]{10,}                            # Slack
      | AIza[A-Za-z0-9_-]{35}                                     # Google
      | npm_[A-Za-z0-9]{36} | pypi-AgE[A-Za-z0-9_-]{50,}
      | eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}                   # a JSON Web Token
    )
"""
"""Tokens that are known by their form."""
_TOKEN = re.compile(TOKEN_FORMS.encode())
_PASSWORD_NAME = rb"(?:passw(?:or)?d|passphrase|pwd)"
_KEY_NAME = rb"(?i:" + _KEY_OWNER.encode() + rb"[-_]?key)"
_SINGLE_TOKEN = rb"(?i:" + _TOKEN_WORD.encode() + rb")"
_TOKEN_NAME = rb"(?:" + _SINGLE_TOKEN + rb"|secret|" + _KEY_NAME + rb"|auth)"
_EQUALS = rb"""(?:\\?["'])?\]?[ \t]*(?::[ \t]*str[ \t]*)?[:=][ \t]*"""
"""Between a name and its value in Python, JSON, YAML or a shell; also of a member."""
_LITERAL = rb"""[rb]?\\?["'](?P<value>[^"'\\\s]{%d,200})\\?["']"""
_EXPORT = rb"(?m)^[ \t]*(?:(?:export|setenv|declare[ \t]+-g?x|set[ \t]+-g?x)[ \t]+)?[A-Z0-9_]{0,60}"
_WORD = rb"[ \t=](?P<value>[^\s\"'$`(){};,<]{6,200})[ \t]*(?:[;#&].*)?\r?$"
"""A line of a shell, or of a file of variables, up to the name of a secret, and its value without quotes."""
_SETTING = rb"(?im)^[ \t]*[a-z0-9_-]{0,60}"
"""A line of YAML or of an INI file, up to the name of a secret."""
_ANY = re.compile(b"")
_MIXED = re.compile(rb"[A-Za-z].*[0-9]|[0-9].*[A-Za-z]")
_MADE = re.compile(
    rb"\A(?=(?:[^0-9]*[0-9]){2})(?=[^A-Za-z]*[A-Za-z])"
    rb"(?:[^/.]+|(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[A-Za-z0-9+/]{32,}={0,2})\Z"
)
"""A value that a program made, and no path, no name of a file or of a model: letters and at least two digits."""
_ASSIGNED: tuple[tuple[re.Pattern[bytes], re.Pattern[bytes]], ...] = tuple(
    (re.compile(pattern), form)
    for pattern, form in (
        (rb"(?i)" + _PASSWORD_NAME + rb"[0-9]?" + _EQUALS + _LITERAL % 4, _ANY),
        (rb"(?i)" + _TOKEN_NAME + rb"[0-9]?" + _EQUALS + _LITERAL % 8, _MADE),
        (rb"(?i)(?<![A-Za-z0-9])key" + _EQUALS + _LITERAL % 32, _MADE),
        (_EXPORT + rb"(?:PASSW(?:OR)?D|PASSPHRASE|" + _SINGLE_TOKEN + rb"|SECRET|API_?KEY|ACCESS_?KEY)" + _WORD, _ANY),
        (_EXPORT + _KEY_NAME + _WORD, _MIXED),
        (_SETTING + rb"passw(?:or)?d:[ \t]+(?P<value>[^\s\"'$`(){}\[\],<]{6,200})[ \t]*\r?$", _MIXED),
        (_SETTING + rb"passw(?:or)?d[ \t]*[:=][ \t]*(?P<value>[\w+/=-]{16,200})[ \t]*\r?$", _MIXED),
        (
            _SETTING + rb"(?:" + _SINGLE_TOKEN + rb"|secret|" + _KEY_NAME + rb")[ \t]*[:=][ \t]*"
            rb"(?P<value>[\w+/=-]{16,200})[ \t]*\r?$",
            _MADE,
        ),
    )
)
"""Assignments of a literal to a name of a secret, and the form that the literal must have."""
_ADDRESS = re.compile(rb"://[^\s:@/\"'<>{}$]{1,80}:(?P<value>[^\s:@/\"'<>{}$]{3,200})@[A-Za-z0-9\[]")
_LOGIN = re.compile(rb"\bmachine\s+\S+\s+login\s+\S+\s+password\s+\S+")
_PLACEHOLDER = re.compile(
    rb"(?i)pass|secret|token|your|example|change|dummy|placeholder|xxx|\*\*\*|\.\.\.|[:?]$|^[<$%{\[]"
)
"""Words of examples, of prompts, and of templates, which stand where a value would."""
_NO_TEXT = re.compile(rb"[\x01-\x06\x0e-\x1a\x1c-\x1f]")
_ASSIGNED_SIGNS = (b"passw", b"passphrase", b"pwd", b"token", b"secret", b"key", b"auth")
_TOKEN_SIGNS = (
    *(b"AKIA", b"ASIA", b"ABIA", b"ACCA", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"glpat-"),
    *(b"hf_", b"sk-", b"k_live_", b"xox", b"AIza", b"npm_", b"pypi-", b"eyJ"),
)
"""What every match has, which is found far faster than a match."""
SECRET_ENDING = rf"(?:{_KEY_OWNER}[-_.]?key|{_TOKEN_WORD}|passw(?:or)?d|pwd|passphrase|secret|credentials?)"
"""The last word of the name of an option for a secret; in small letters or capitals."""
SECRET_WORDS = ("key", "token", "passw", "pwd", "secret", "credential", "passphrase")
"""One of these stands in every such name, in small letters."""
_SECRET_ARGUMENT = re.compile(rf"(?:--?|[+~]{{1,2}})?(?:(?:[\w.-]*[-_.])?{SECRET_ENDING}|key)", re.IGNORECASE)
_SET_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^]]*\])?[:+]?=")
_SETTING_COMMAND = re.compile(r"(?:^|[;&|({\s])(?:read|mapfile|readarray|printf\s+-v|setenv|set\s+--)\s|<<")
_SECRET_WORD = re.compile(r"token|secret|passw|passphrase|api_?-?key|login|auth|credential|://[^/\s]*@", re.IGNORECASE)
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
    original = _BACKUP.sub("", name.lstrip("#")) or name
    return next(filter(None, map(_name_reason, dict.fromkeys((name, original, original.removeprefix("."))))), "")


def _name_reason(name: str) -> str:
    for patterns, reason in _FILES:
        if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
            return "" if reason == _SAYS_SO and name.endswith(_CODE) else reason
    stem, dot, suffix = name.rpartition(".") if "." in name.strip(".") else (name, "", "")
    if f"{dot}{suffix}" not in _TEXT or name in _TOKENIZER:
        return ""
    is_whole = stem.strip(".") in _WHOLE_NAMES and suffix != "csv"
    return _SAYS_SO if is_whole or _FILE_WORD.search(stem) else ""


def key_reason(content: bytes) -> str:
    """Return that bytes have the first line of a private key, in UTF-8 or in UTF-16; empty if they have none."""
    found = any(any(sign in text for sign in _KEY_SIGNS) and _KEY.search(text) for text in _byte_texts(content))
    return "it holds a private key" if found else ""


def content_reason(content: bytes) -> str:
    """Return why a text may hold a secret: a private key, a token, or a password beside its name; else empty."""
    if reason := key_reason(content):
        return reason
    for text in _byte_texts(content):
        if any(sign in text for sign in _TOKEN_SIGNS) and _TOKEN.search(text):
            return "it holds a token"
        if _LOGIN.search(text) or _has_value(_ADDRESS, text, _ANY):
            return "it holds a password"
        lines = _lines_with(_ASSIGNED_SIGNS, text)
        if any(_has_value(pattern, lines, form) for pattern, form in _ASSIGNED):
            return "it holds a password or a token"
    return ""


def is_text(beginning: bytes) -> bool:
    """Whether a file that begins so is a text, in UTF-8, in UTF-16 or in an older encoding."""
    return not _NO_TEXT.search(beginning.replace(b"\0", b"")[:4096])


def _byte_texts(content: bytes) -> Iterator[bytes]:
    """Yield the bytes, and if there are zeros between them (UTF-16), also without these."""
    content = content.lstrip(b"\xff\xfe\xef\xbb\xbf")  # the mark at the beginning of a text in Unicode
    yield content
    if b"\0" in content:
        yield content.replace(b"\0", b"")


def _lines_with(signs: tuple[bytes, ...], text: bytes) -> bytes:
    """Return the lines that have one of these words, in small letters or capitals."""
    small, ends = text.lower(), dict[int, int]()
    for sign in signs:
        at = small.find(sign)
        while at >= 0:
            end = small.find(b"\n", at)
            end = len(small) if end < 0 else end
            ends[small.rfind(b"\n", 0, at) + 1] = end
            at = small.find(sign, end)
    return b"\n".join(text[begin:end] for begin, end in sorted(ends.items()))


def _has_value(pattern: re.Pattern[bytes], text: bytes, form: re.Pattern[bytes]) -> bool:
    """Whether a pattern finds a literal of a form that is no placeholder."""
    return any(
        not _PLACEHOLDER.search(value) and form.search(value) is not None
        for value in (found["value"] for found in pattern.finditer(text))
    )


def may_set_secret(line: str) -> bool:
    """Whether a line of a shell may give a variable a value that is no known setting, or speaks of a secret.

    A shell has many ways to do so (``export A=1 B=2``, ``: "${A:=1}"``, ``read A <<< 1``, ``env A=1 program``), and
    more ways to quote. So this only looks for names before an equals sign, and for words.
    """
    if _SETTING_COMMAND.search(line) or _SECRET_WORD.search(line):
        return True
    return any(not is_public_variable(name) for name in _SET_NAME.findall(line))


def is_secret_argument(name: str) -> bool:
    """Whether a parameter, an option (``--api-key``) or an override (``+a.api_key``) is one for a secret."""
    return bool(_SECRET_ARGUMENT.fullmatch(name))


def is_secret_variable(name: str) -> bool:
    """Whether the name of a variable says that its value is a secret."""
    return bool(_SECRET_VARIABLE.search(name))


def is_public_variable(name: str) -> bool:
    """Whether the value of a variable may leave the machine: its name is that of a known setting, and of no secret."""
    return bool(_PUBLIC_VARIABLE.fullmatch(name)) and not is_secret_variable(name)
