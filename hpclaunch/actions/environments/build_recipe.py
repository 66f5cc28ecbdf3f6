"""What an environment is built of: the centre's own way where its site file has one, else the general way; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpclaunch.config.environment_recipes import AMD, NVIDIA, is_other_machine, maker_of_gpus, recipe_of, wheels_apart
from hpclaunch.config.site import EnvironmentRecipe, Site
from hpclaunch.core.errors import Fault, InvalidRequest, Refused
from hpclaunch.core.records import record
from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.core.spec import JAX, PYTORCH, TENSORFLOW, Pairs
from hpclaunch.core.units import CONTROL

FRAMEWORKS = (TENSORFLOW, PYTORCH, JAX)
CONTAINER = "container"
MAKERS = ("venv", "virtualenv", "conda", CONTAINER)
"""What an environment can be made with."""
HOROVOD = "horovod==0.28.1"
"""The newest release of Horovod (2023)."""

_WITH_HOROVOD = ("2.15.1", "2.18.1")
"""The newest TensorFlow up to Python 3.11, and from 3.12 on, with which Horovod compiles unchanged."""
_PACKAGES = {
    # The names of the frameworks' own installation pages. JAX: docs.jax.dev/en/latest/installation.html.
    (PYTORCH, NVIDIA): "torch",
    (PYTORCH, AMD): "torch",
    (PYTORCH, ""): "torch",
    (TENSORFLOW, NVIDIA): "tensorflow[and-cuda]",
    (TENSORFLOW, AMD): "tensorflow-rocm",
    (TENSORFLOW, ""): "tensorflow",
    (JAX, NVIDIA): "jax[cuda12]",
    (JAX, AMD): "jax[rocm7-local]",
    (JAX, ""): "jax",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!_-]{0,63}")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][^\x00-\x1f\x7f]{0,255}")


@record
class BuildRequest:
    """What was typed for an environment; None and empty values are left to the site and to the framework.

    ``packages``: requirements for pip beside the framework. ``wheels``: a folder with all wheels, beside which pip asks
    no index. ``image``: that of a container, as its runtime reads it (``docker://…``).
    """

    name: str
    framework: str
    node_type: str | None = None
    version: str | None = None
    packages: tuple[str, ...] = ()
    python: str | None = None
    make_with: str | None = None
    modules: tuple[str, ...] = ()
    variables: Pairs = ()
    horovod: bool | None = None
    nccl: bool | None = None
    index_url: str | None = None
    find_links: str | None = None
    wheels: str | None = None
    image: str | None = None


@record
class BuildRecipe:
    """The complete recipe of an environment.

    ``gpus``: the maker of the GPUs that it is for (empty: none). ``packages``: the framework's requirements, for which
    ``index_url`` counts, and ``further`` the others. ``horovod``: its requirement (empty: none), ``nccl``: whether it
    is built for NCCL, or for RCCL on AMD's GPUs. ``variables`` belong to the build, and ``shell_variables`` too, with
    names that the shell replaces. ``image`` is what a container is made of by ``runtime``, as it is: then nothing is
    installed, and ``horovod`` only says that the image must have it; ``register`` copies it into ``image_folder``, the
    only one from which the site runs images. ``source`` says whose recipe it is.
    """

    name: str
    framework: str
    site: str
    node_type: str
    gpus: str
    make_with: str
    python: str
    modules: tuple[str, ...]
    setup: tuple[str, ...]
    packages: tuple[str, ...]
    further: tuple[str, ...]
    horovod: str
    nccl: bool
    variables: Pairs
    shell_variables: Pairs
    index_url: str
    find_links: str
    wheels: str
    own_wheels: bool
    login_shell: bool
    in_job: bool
    source: str
    image: str = ""
    runtime: str = ""
    image_folder: str = ""
    register: str = ""


def check_request(request: BuildRequest) -> None:
    """Raise InvalidRequest with all that is wrong with the typed values, regardless of the site."""
    faults = [_name_fault(request.name)] if not _NAME.fullmatch(request.name) else []
    if request.framework not in FRAMEWORKS:
        what = f"no environment is made for {request.framework!r}"
        faults.append(Fault(where="--framework", what=what, allowed=", ".join(FRAMEWORKS)))
    if request.framework == JAX and request.horovod:
        what = "Horovod does not know JAX"
        faults.append(Fault(where="--horovod", what=what, next="leave it out: JAX's ranks find each other themselves"))
    if request.version is not None and not _VERSION.fullmatch(request.version):
        faults.append(Fault(where="--version", what=f"{request.version!r} is no version", allowed="such as 2.15.1"))
    for text in request.packages:
        if not _REQUIREMENT.fullmatch(text):
            allowed = "a requirement of pip, such as numpy<2; no option"
            faults.append(Fault(where="--package", what=f"{text!r} is no package", allowed=allowed))
    faults += [*_place_faults(request), *_container_faults(request)]
    if faults:
        raise InvalidRequest(faults)


def _name_fault(name: str) -> Fault:
    allowed = "a letter or digit, then letters, digits, '_', '.' and '-'; at most 64 characters"
    return Fault(where="NAME", what=f"{name[:100]!r} cannot be the name of an environment", allowed=allowed)


def _container_faults(request: BuildRequest) -> list[Fault]:
    """Return what is wrong with the way of making it, and with what is typed beside a container's image."""
    if request.make_with is not None and request.make_with not in MAKERS:
        what = f"no environment is made with {request.make_with!r}"
        return [Fault(where="--make-with", what=what, allowed=", ".join(MAKERS))]
    if request.image is not None and request.make_with not in (None, CONTAINER):
        what = f"cannot be used together: {request.make_with} needs no image"
        return [Fault(where="--image and --make-with", what=what, next="leave one of them out")]
    return _fixed_faults(request) if request.make_with == CONTAINER or request.image is not None else []


def _fixed_faults(request: BuildRequest) -> list[Fault]:
    """Return a fault for what cannot be typed for a container, whose image is taken as it is."""
    typed = [
        ("--version", request.version),
        ("--package", request.packages),
        ("--python", request.python),
        ("--nccl", request.nccl),
        ("--index-url", request.index_url),
        ("--find-links", request.find_links),
        ("--wheelhouse", request.wheels),
    ]
    given = [flag for flag, value in typed if value not in (None, ())]
    what = "an image is taken as it is, so this has no effect"
    return [Fault(where=" and ".join(given), what=what, next="leave it out; or --make-with venv")] if given else []


def _place_faults(request: BuildRequest) -> list[Fault]:
    """Return what is wrong with the places of wheels, with a program and with modules."""
    faults = []
    if request.index_url is not None and request.wheels is not None:
        what, hint = "cannot be used together: with a folder of wheels pip asks no index", "leave one of them out"
        faults.append(Fault(where="--index-url and --wheelhouse", what=what, next=hint))
    address = request.index_url or ""
    if "@" in address.partition("//")[2].partition("/")[0]:
        what = "a password in an address would be written into the script and the record"
        faults.append(Fault(where="--index-url", what=what, next="keep it in pip's configuration or in ~/.netrc"))
    texts = [("--python", request.python), ("--index-url", request.index_url), ("--find-links", request.find_links)]
    texts += [
        ("--wheelhouse", request.wheels),
        ("--image", request.image),
        *(("--module", name) for name in request.modules),
    ]
    for flag, text in texts:
        if text is not None and (not text or text.startswith("-") or CONTROL.search(text)):
            faults.append(Fault(where=flag, what=f"{text!r} is empty, an option, or has a control character"))
    return faults


def build_recipe(site: Site, request: BuildRequest) -> BuildRecipe:
    """Return the recipe. Raises Refused where the centre allows no such environment, or more must be typed."""
    taught = recipe_of(site, request.framework)
    node_type = request.node_type or site.defaults.node_type
    if node_type not in site.node_types:
        known = ", ".join(site.node_types)
        raise Refused(Fault(where="--node-type", what=f"{site.name} has no node type {node_type!r}", allowed=known))
    gpus = _known_maker(site, node_type)
    kind = _kind(site, taught, request)
    if kind == CONTAINER:
        return _container_recipe(site, taught, request, node_type, gpus)
    horovod = _horovod(taught, request)
    packages = _packages(taught, request, gpus, bool(horovod))
    _require_index(site, taught, request, gpus)
    return BuildRecipe(
        name=request.name,
        framework=request.framework,
        site=site.name,
        node_type=node_type,
        gpus=gpus,
        make_with=kind,
        python=_python(taught, request, kind),
        modules=request.modules or taught.modules or site.environment.modules,
        setup=() if request.modules else taught.setup,
        packages=packages,
        further=(*(["numpy"] if request.framework == PYTORCH else []), *request.packages),  # torch takes it if there
        horovod=horovod,
        nccl=bool(horovod) and (request.nccl if request.nccl is not None else bool(gpus)),
        variables=request.variables,
        shell_variables=tuple(taught.variables.items()) if horovod else (),
        index_url=request.index_url or "",
        find_links=request.find_links or "",
        wheels=request.wheels or "",
        own_wheels=taught.own_wheels and not _names_a_place(request),
        login_shell=site.login_shell,
        in_job=taught.in_job or is_other_machine(site, node_type),
        source=_source(site, request.framework),
    )


def _kind(site: Site, taught: EnvironmentRecipe, request: BuildRequest) -> str:
    """Return what makes the environment. Raises Refused where the centre allows only a container, and none is typed."""
    kind = request.make_with or (CONTAINER if request.image else taught.kind)
    if taught.kind == "none" and kind != CONTAINER:
        where = f"{site.name}: recipes.{request.framework}"
        raise Refused(Fault(where=where, what=taught.note, next="--make-with container --image IMAGE"))
    return kind


def _container_recipe(
    site: Site, taught: EnvironmentRecipe, request: BuildRequest, node_type: str, gpus: str
) -> BuildRecipe:
    """Return the recipe of an image. Raises Refused if none is known, or if the site's runtime makes none."""
    image = request.image or taught.image
    if not image:
        what = f"no image with {request.framework} is known for {site.name}"
        raise Refused(Fault(where="--image", what=what, allowed="an image as its runtime names it: docker://NAME:TAG"))
    where = f"{site.name}: container"
    if site.container is None:
        what, hint = "its container runtime is not known", "--make-with venv; or a site file of your own with it"
        raise Refused(Fault(where=where, what=what, next=f"{hint} (hpclaunch docs site-files)"))
    container, runtime = site.container, site.container.runtime
    if not RUNTIMES[runtime].runs_files:
        what = f"{runtime} brings images to the nodes itself, so there is nothing to build"
        raise Refused(Fault(where=where, what=what, next=f"'environment: {{container: {image}}}' in the settings"))
    if faults := _fixed_faults(request):
        raise InvalidRequest(faults)
    modules = taught.modules or site.environment.modules
    return BuildRecipe(
        name=request.name,
        framework=request.framework,
        site=site.name,
        node_type=node_type,
        gpus=gpus,
        make_with=CONTAINER,
        python="python3",
        modules=request.modules or tuple(dict.fromkeys([*container.load, *modules])),
        setup=() if request.modules else taught.setup,
        packages=(),
        further=(),
        horovod="horovod" if request.horovod else "",
        nccl=bool(request.horovod and gpus),
        variables=request.variables,
        shell_variables=(),
        index_url="",
        find_links="",
        wheels="",
        own_wheels=False,
        login_shell=site.login_shell,
        in_job=taught.in_job or is_other_machine(site, node_type),
        source=_source(site, request.framework) if image == taught.image else "an image of the user's choice",
        image=image,
        runtime=runtime,
        image_folder=container.image_folder or "",
        register=container.register or "",
    )


def _known_maker(site: Site, node_type: str) -> str:
    """Return who made the GPUs of a node type. Raises Refused where that is not known: wheels are for one maker."""
    node = site.node_types[node_type]
    gpus = maker_of_gpus(node)
    if gpus is None:
        named = f"{node.gpu_model!r} names no maker" if node.gpu_model else "the file names no GPU model"
        fault = Fault(
            where=f"{site.name}: node_types.{node_type}.gpu_model",
            what=f"{named}, so it is not known for which GPUs the environment is",
            allowed="a text with NVIDIA or AMD, such as NVIDIA A100",
            next="write it into a site file of your own (hpclaunch docs site-files); or --node-type with other nodes",
        )
        raise Refused(fault)
    return gpus


def _horovod(taught: EnvironmentRecipe, request: BuildRequest) -> str:
    """Return the requirement of Horovod; TensorFlow gets it unless it is declined, PyTorch if it is asked for."""
    wanted = request.framework == TENSORFLOW if request.horovod is None else request.horovod
    if not wanted:
        return ""
    named = [text for text in taught.packages if _is_horovod(text)]
    if named:
        return named[0]
    if taught.own_wheels and not _names_a_place(request):
        return "horovod"  # the centre's own wheel, of whichever version
    return HOROVOD


def _is_horovod(requirement: str) -> bool:
    return re.match("horovod(?![A-Za-z0-9_.-])", requirement) is not None


def _packages(taught: EnvironmentRecipe, request: BuildRequest, gpus: str, with_horovod: bool) -> tuple[str, ...]:
    """Return pip's requirements for the framework."""
    name = _PACKAGES[request.framework, gpus]
    if request.version is not None:
        return (f"{name}=={request.version}",)
    if taught.packages:
        return tuple(text for text in taught.packages if not _is_horovod(text))
    if request.framework == TENSORFLOW and with_horovod and gpus != AMD and not taught.own_wheels:
        older, newer = _WITH_HOROVOD
        is_older, is_newer = 'python_version < "3.12"', 'python_version >= "3.12"'
        keras = f"tf-keras==2.18.0; {is_newer}"  # Keras 2, which Horovod's interface needs
        return (f"{name}=={older}; {is_older}", f"{name}=={newer}; {is_newer}", keras)
    return (name,)


def _python(taught: EnvironmentRecipe, request: BuildRequest, kind: str) -> str:
    """Return the program that makes the environment; for conda the version of Python."""
    if request.python is not None:
        return request.python
    return (taught.python or "3.12") if kind == "conda" else "python3"


def _names_a_place(request: BuildRequest) -> bool:
    """Whether it was typed where wheels come from."""
    return bool(request.index_url or request.find_links or request.wheels)


def _require_index(site: Site, taught: EnvironmentRecipe, request: BuildRequest, gpus: str) -> None:
    """Raise Refused if the usual index would give wheels for other GPUs than the nodes have."""
    variant = wheels_apart(taught, request.framework, gpus)
    if not variant or _names_a_place(request):
        return
    what = f"the wheels of {request.framework} for {variant} are in a package index of their own"
    next_step = (
        f"--index-url with the address for {variant} that PyTorch's page 'Start Locally' gives; or --wheelhouse with "
        "the folder of downloaded wheels"
    )
    raise Refused(Fault(where=f"{request.framework} at {site.name}", what=what, next=next_step))


def _source(site: Site, framework: str) -> str:
    """Return in words whose recipe it is, with the sources of the site file and their dates."""
    if framework not in site.recipes:
        return f"the general recipe; {site.name} has none of its own for {framework}"
    names: Sequence[str] = site.origins.get(f"recipes.{framework}") or site.origins.get("recipes", ())
    found = [f"{site.sources[name].ref} ({site.sources[name].read})" for name in names if name in site.sources]
    if not found:
        return f"the site file of {site.name}"
    is_of_users = {"recipes", f"recipes.{framework}"} & {*site.third_party}
    whose = f"users of {site.name} make it" if is_of_users else f"{site.name}'s centre teaches it"
    return f"as {whose}: {'; '.join(found)}"
