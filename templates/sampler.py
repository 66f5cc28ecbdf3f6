"""Measures one node of a run while its ranks live: CPU, memory, GPUs, network and energy; it changes nothing.

The library of the script (hpclaunch.sh) starts it once a node. It writes a line into the run directory every ten
seconds, and less often in a long run (hpclaunch docs efficiency). It needs Python 3.8 and Linux. It ends when no rank
of its node lives, and every fault of it ends it without a word: the job must not notice.

usage: sampler.py NODE ATTEMPT FOLDER; FOLDER/NODE-ATTEMPT.ranks lists the ranks of this node
"""

import ctypes
import json
import os
import re
import signal
import sys
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

INTERVAL = 10.0
"""Seconds between two measurements, and at first between two lines."""
FIRST = 3.0
"""Seconds to the first measurement, so that a short run has one."""
LINES, LONGEST = 360, 320.0
"""After so many lines the interval between lines doubles, up to LONGEST seconds: a day has 1,600 lines."""
BUFFER, MOMENT = 10.0, 1.0
"""Seconds between two reads of a driver's buffer of samples (NVML keeps 14 s), and of a GPU that tells its use now."""
MARGIN = 0.05
"""Seconds by which a read may be early: the sampler wakes once a second, or a little later."""
GAP = 2.0
"""Seconds; a longer gap between two samples of a driver was not measured (NVML: one in 1/6 to 1 second)."""
SHARE = 0.002
"""The share of a core that one part of the measurement (PSS, or the rest) may take: the larger its cost, the rarer."""
TICKS = os.sysconf("SC_CLK_TCK")
HANGS = 60
"""Seconds after which a measurement that does not return ends the sampler."""
PR_SET_PDEATHSIG = 1


def read(path: str) -> str:
    """Return the text of a file of the kernel; empty if there is none, or it may not be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def number_in(path: str) -> Optional[int]:
    """Return the number that a file consists of; None for any other text (``max``)."""
    text = read(path).strip()
    return int(text) if text.isdigit() else None


def field(text: str, name: str) -> Optional[int]:
    """Return the number after a name at the beginning of a line: ``usage_usec 12``, ``Pss:   12 kB``."""
    match = re.search("^" + name + ":?[ \t]+([0-9]+)", text, re.MULTILINE)
    return int(match.group(1)) if match else None


def count_cpus(text: str) -> Optional[int]:
    """Return the number of CPUs in the kernel's notation (``0-3,8``); None if there are none."""
    spans = re.findall("([0-9]+)(?:-([0-9]+))?", text)
    return sum(int(last or first) - int(first) + 1 for first, last in spans) or None


class Cgroup:
    """The cgroup that Slurm made for this job on this node, in version 1 or 2; no other is read.

    ``is_whole``: the job consists of this run alone. ``root``: the folder below which /proc and the cgroups are.
    """

    def __init__(self, is_whole: bool, root: str = "") -> None:
        self.folders: Dict[str, str] = {}
        mounts = self._mounts(root)
        for _, controllers, path in re.findall("^([0-9]+):(.*?):(.*)$", read(root + "/proc/self/cgroup"), re.MULTILINE):
            match = re.match("(.*/job_[0-9]+)(/|$)", path)
            for name in controllers.split(",") if match and is_whole else []:  # the only name of version 2 is empty
                if match and name in mounts:
                    self.folders[name] = root + mounts[name] + match.group(1)
        self.two = not self.folders.keys() & {"cpuacct", "memory"}

    @staticmethod
    def _mounts(root: str) -> Dict[str, str]:
        """Return the mount point of every controller; that of version 2 has an empty name."""
        found: Dict[str, str] = {}
        text = read(root + "/proc/self/mountinfo")
        mounts = re.findall(r"^\S+ \S+ \S+ \S+ (\S+) .*- cgroup(2?) \S+ (\S+)$", text, re.MULTILINE)
        for place, version, options in mounts:
            for name in [""] if version else options.split(","):
                found.setdefault(name, place)
        return found

    def _path(self, controller: str, *files: str) -> str:
        return os.path.join(self.folders.get("" if self.two else controller, "/nonexistent"), files[not self.two])

    def cpu(self) -> Optional[float]:
        """Return the core-seconds of the job up to now."""
        text = read(self._path("cpuacct", "cpu.stat", "cpuacct.usage"))
        used = field(text, "usage_usec") if self.two else int(text) // 1000 if text.strip().isdigit() else None
        return None if used is None else used / 1e6

    def memory(self) -> Optional[int]:
        """Return the job's bytes without page cache that was not used lately (kubelet's working set)."""
        used = number_in(self._path("memory", "memory.current", "memory.usage_in_bytes"))
        stat = read(self._path("memory", "memory.stat", "memory.stat"))
        cached = field(stat, "inactive_file" if self.two else "total_inactive_file")
        return None if used is None else max(0, used - (cached or 0))

    def limit(self) -> Optional[int]:
        """Return the bytes that the job may use; None without a limit."""
        most = number_in(self._path("memory", "memory.max", "memory.limit_in_bytes"))
        return most if most is not None and most < 2**60 else None

    def cpus(self) -> Optional[int]:
        """Return the number of logical CPUs of the job."""
        return count_cpus(read(self._path("cpuset", "cpuset.cpus.effective", "cpuset.cpus")))


class Ranks:
    """The processes of each rank of this node: those that its shell, or one of them, has started."""

    def __init__(self, file: str, root: str = "") -> None:
        self.file, self.root = file, root
        self.shells: Dict[Tuple[int, str], int] = {}  # (process, its beginning) -> rank
        self.members: Dict[Tuple[int, str], int] = {}  # (process, its beginning) -> rank
        self.totals: Dict[int, Dict[str, float]] = {}
        self.memory_source = "pss"

    def reread(self) -> None:
        """Read which ranks there are: each shell has written a line ``begin RANK PROCESS BEGINNING``."""
        for rank, process, began in re.findall("^begin ([0-9]+) ([0-9]+) ([0-9]+)$", read(self.file), re.MULTILINE):
            self.shells[int(process), began] = int(rank)

    def lives(self) -> bool:
        """Whether the shell of any rank lives; in most cases one look."""
        for process, began in self.shells:
            fields = read("%s/proc/%d/stat" % (self.root, process)).rpartition(") ")[2].split()
            if len(fields) > 19 and fields[19] == began and fields[0] not in "ZX":
                return True
        return False

    def measure(self) -> Dict[int, Dict[str, float]]:
        """Return core-seconds, and bytes of read and write calls, of every rank since its beginning.

        The kernel adds those of a process that has ended to the process that waited for it.
        """
        table = self._table()
        now: Dict[int, Dict[str, float]] = {}
        found: Dict[Tuple[int, str], int] = {}
        for process, (_, began, seconds) in table.items():
            rank = self._rank_of(process, table)
            if rank is None:
                continue
            found[process, began] = rank
            values = now.setdefault(rank, {"cpu": 0.0, "read": 0.0, "write": 0.0})
            io = read("%s/proc/%d/io" % (self.root, process))
            values["cpu"] += seconds
            values["read"] += field(io, "rchar") or 0
            values["write"] += field(io, "wchar") or 0
        self.members = found
        for rank, values in now.items():
            before = self.totals.get(rank, {})
            self.totals[rank] = {name: max(value, before.get(name, 0.0)) for name, value in values.items()}
        return {rank: self.totals[rank] for rank in now}

    def _table(self) -> Dict[int, Tuple[int, str, float]]:
        """Return process -> parent, beginning and core-seconds (with those of ended children), of this user's."""
        table = {}
        user = os.getuid()
        for entry in os.scandir(self.root + "/proc"):
            try:
                if not entry.name.isdigit() or entry.stat().st_uid != user:
                    continue
            except OSError:
                continue
            fields = read(entry.path + "/stat").rpartition(") ")[2].split()
            if len(fields) > 19 and int(entry.name) != os.getpid():
                seconds = sum(map(int, fields[11:15])) / TICKS
                table[int(entry.name)] = (int(fields[1]), fields[19], seconds)
        return table

    def _rank_of(self, process: int, table: Dict[int, Tuple[int, str, float]]) -> Optional[int]:
        while process in table:
            parent, began, _ = table[process]
            for known in (self.shells, self.members):  # members: also one whose parent has ended since
                if (process, began) in known:
                    return known[process, began]
            process = parent
        return None

    def memory(self) -> Dict[int, int]:
        """Return the PSS of every rank in bytes; the resident memory where the kernel does not sum PSS up (4.13)."""
        sizes: Dict[int, int] = {}
        for (process, _), rank in self.members.items():
            folder = "%s/proc/%d" % (self.root, process)
            size = field(read(folder + "/smaps_rollup"), "Pss")
            if size is None and not os.path.exists(self.root + "/proc/self/smaps_rollup"):
                self.memory_source = "rss"
                size = field(read(folder + "/status"), "VmRSS")
            sizes[rank] = sizes.get(rank, 0) + (size or 0) * 1024
        return sizes


Gpu = Dict[str, Any]
"""What is known of a GPU: memory, and that of the job's processes (own; bytes), power (watts), energy (joules, sum).

NVIDIA's also: the share of the multiprocessors that were busy since the last time (sms)."""


class Use:
    """The time in which a GPU computed: busy and measured seconds, and the number of samples, since the last line."""

    def __init__(self) -> None:
        self.busy, self.seconds, self.samples = 0.0, 0.0, 0

    def add(self, share: float, seconds: float) -> None:
        """Add a share (0 to 1) of so many seconds."""
        self.busy += share * seconds
        self.seconds += seconds
        self.samples += 1

    def values(self) -> Dict[str, Any]:
        """Return the share of the measured time, with its samples and seconds; None if nothing was measured."""
        share = round(self.busy / self.seconds, 4) if self.seconds else None
        return {"use": share, "samples": self.samples, "seconds": round(self.seconds, 1)}


def asked(function: Any, *arguments: Any) -> bool:
    """Call a function of a vendor's library. Both libraries return 0 for success."""
    return bool(function(*arguments) == 0)


def value_of(library: Any, name: str, kind: Any, *arguments: Any) -> Any:
    """Return the value that a function writes to its last argument; None if the library has it not, or refuses."""
    function = getattr(library, name, None)
    value = kind()
    if function is None or not asked(function, *arguments, ctypes.byref(value)):
        return None
    return value if isinstance(value, ctypes.Structure) else value.value


def text_of(library: Any, name: str, *arguments: Any) -> str:
    """Return the text that a function writes."""
    function, buffer = getattr(library, name, None), ctypes.create_string_buffer(128)
    is_known = function is not None and asked(function, *arguments, buffer, 128)
    return buffer.value.decode("utf-8", "replace") if is_known else ""


class Utilization(ctypes.Structure):
    """nvmlUtilization_t: percent of the last interval of the driver."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Memory(ctypes.Structure):
    """nvmlMemory_t, in bytes."""

    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Value(ctypes.Union):
    """nvmlValue_t; nvmlValueType_t numbers its members in this order."""

    _fields_ = [
        ("double", ctypes.c_double),
        ("uint", ctypes.c_uint),
        ("ulong", ctypes.c_ulong),
        ("ulonglong", ctypes.c_ulonglong),
        ("longlong", ctypes.c_longlong),
    ]


class Reading(ctypes.Structure):
    """nvmlSample_t: microseconds of the host's clock, and the value of the time before."""

    _fields_ = [("time", ctypes.c_ulonglong), ("value", Value)]


class Process(ctypes.Structure):
    """nvmlProcessInfo_t, version 2: memory in bytes; all bits are set where the driver does not know it."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Metric(ctypes.Structure):
    """nvmlGpmMetric_t: a number of nvmlGpmMetricId_t; its code and value, and its names, are written."""

    _fields_ = [
        ("metric", ctypes.c_uint),
        ("code", ctypes.c_int),
        ("value", ctypes.c_double),
        ("names", ctypes.c_char_p * 3),
    ]


class Metrics(ctypes.Structure):
    """nvmlGpmMetricsGet_t, version 1: asked of the time between two samples. Newer drivers know more metrics."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("number", ctypes.c_uint),
        ("first", ctypes.c_void_p),
        ("second", ctypes.c_void_p),
        ("metrics", Metric * 512),
    ]


class Support(ctypes.Structure):
    """nvmlGpmSupport_t, version 1."""

    _fields_ = [("version", ctypes.c_uint), ("is_supported", ctypes.c_uint)]


SM_UTILIZATION = 2
"""NVML_GPM_METRIC_SM_UTIL: percent of the streaming multiprocessors that were busy, over the time."""
UTILIZATION_SAMPLES = 1
"""NVML_GPU_UTILIZATION_SAMPLES: percent of the time in which a kernel ran."""
NOTHING_NEW = 6
"""NVML_ERROR_NOT_FOUND: there is no sample after the time that was named."""
MOST_PROCESSES = 256
UNKNOWN = 2**64 - 1
"""NVML_VALUE_NOT_AVAILABLE."""


class Nvml:
    """NVIDIA's GPUs (NVML API reference); of a divided one its MIG devices, whose use the driver does not measure."""

    name = "nvml"
    variables: Sequence[str] = ("CUDA_VISIBLE_DEVICES",)
    libraries = ("libnvidia-ml.so.1",)

    def __init__(self, library: Any) -> None:
        if not asked(library.nvmlInit_v2):
            raise OSError
        self.library = library
        self.gpus: List[Any] = []  # number, handle, UUID
        for index in range(value_of(library, "nvmlDeviceGetCount_v2", ctypes.c_uint) or 0):
            handle = ctypes.c_void_p()
            if asked(library.nvmlDeviceGetHandleByIndex_v2, index, ctypes.byref(handle)):
                for part in self._parts(handle):
                    self.gpus.append((index, part, text_of(library, "nvmlDeviceGetUUID", part)))
        self.seen: Dict[Any, int] = {}  # GPU -> time of its newest sample; one that is not here has no samples
        for gpu in self.gpus:
            readings = self._readings(gpu, 0)
            if readings is not None:
                self.seen[gpu[2]] = max((when for when, _ in readings), default=0)
        self.counters = {gpu[2]: pair for gpu in self.gpus for pair in [self._counters(gpu)] if pair}
        self.counted: Set[str] = set()  # the GPUs with a first sample of their counters

    def _counters(self, gpu: Any) -> List[Any]:
        """Return two buffers for samples of a GPU's counters; none of a GPU before Hopper, or of an older driver."""
        ask, new = (getattr(self.library, "nvmlGpm" + name, None) for name in ("QueryDeviceSupport", "SampleAlloc"))
        support, pair = Support(1, 0), [ctypes.c_void_p(), ctypes.c_void_p()]
        if ask is None or new is None or not asked(ask, gpu[1], ctypes.byref(support)) or not support.is_supported:
            return []
        return pair if all(asked(new, ctypes.byref(buffer)) for buffer in pair) else []

    def active_sms(self, gpu: Any) -> Optional[float]:
        """Return the mean share of the multiprocessors that were busy since the last call; None if it is not known."""
        pair = self.counters.get(gpu[2])
        if pair is None or not asked(self.library.nvmlGpmSampleGet, gpu[1], pair[1]):
            return None
        pair.reverse()  # the newer first
        wanted = Metrics(version=1, number=1, first=pair[1], second=pair[0])
        wanted.metrics[0].metric = SM_UTILIZATION
        is_first = gpu[2] not in self.counted
        self.counted.add(gpu[2])
        if is_first or not asked(self.library.nvmlGpmMetricsGet, ctypes.byref(wanted)) or wanted.metrics[0].code != 0:
            return None
        share = wanted.metrics[0].value / 100
        return share if 0 <= share <= 1 else None

    def _parts(self, handle: Any) -> List[Any]:
        """Return the MIG devices of a GPU, or itself if it is not divided."""
        mode, later, found = ctypes.c_uint(), ctypes.c_uint(), []
        ask = getattr(self.library, "nvmlDeviceGetMigMode", None)
        if ask is None or not asked(ask, handle, ctypes.byref(mode), ctypes.byref(later)) or mode.value != 1:
            return [handle]
        for place in range(value_of(self.library, "nvmlDeviceGetMaxMigDeviceCount", ctypes.c_uint, handle) or 0):
            part = ctypes.c_void_p()
            if asked(self.library.nvmlDeviceGetMigDeviceHandleByIndex, handle, place, ctypes.byref(part)):
                found.append(part)
        return found

    def _readings(self, gpu: Any, after: int) -> Optional[List[Tuple[int, float]]]:
        """Return the samples in the driver's buffer after a time (microseconds), and their shares; None if it refuses.

        The first call tells how many there can be.
        """
        function = getattr(self.library, "nvmlDeviceGetSamples", None)
        if function is None:
            return None
        kind, number = ctypes.c_uint(), ctypes.c_uint()
        named = (gpu[1], ctypes.c_uint(UTILIZATION_SAMPLES), ctypes.c_ulonglong(after), ctypes.byref(kind))
        code = function(*named, ctypes.byref(number), None)
        number.value += 16 if code == 0 and number.value else 0  # some may come in between
        readings = (Reading * number.value)()
        if code == 0 and number.value:
            code = function(*named, ctypes.byref(number), readings)
        if code != 0:
            return [] if code == NOTHING_NEW else None
        member = Value._fields_[kind.value][0] if kind.value < len(Value._fields_) else "uint"
        new = [(int(one.time), float(getattr(one.value, member)) / 100) for one in readings[: number.value]]
        return sorted((when, share) for when, share in new if when > after and 0 <= share <= 1)

    def interval(self, gpu: Any) -> float:
        """Return the seconds after which the use must be read again."""
        return BUFFER if gpu[2] in self.seen else MOMENT

    def add_use(self, gpu: Any, use: Use, seconds: float) -> None:
        """Add the use of the last seconds: all samples of the driver since then, or what it tells of this moment.

        A driver without a new sample in so long keeps none any more: from then on the moments count.
        """
        if gpu[2] in self.seen:
            readings = self._readings(gpu, self.seen[gpu[2]])
            if readings or (readings is not None and seconds < BUFFER - MARGIN):
                self._add_readings(gpu, readings, use)
                return
            del self.seen[gpu[2]]
        now = value_of(self.library, "nvmlDeviceGetUtilizationRates", Utilization, gpu[1])
        if now is not None:
            use.add(min(now.gpu, 100) / 100, min(seconds, MOMENT))

    def _add_readings(self, gpu: Any, readings: List[Tuple[int, float]], use: Use) -> None:
        for when, share in readings:
            gap = (when - self.seen[gpu[2]]) / 1e6
            use.add(share, gap if gap <= GAP else 0.0)
            self.seen[gpu[2]] = when

    def own_memory(self, gpu: Any, processes: Set[int]) -> Optional[int]:
        """Return the bytes that these processes hold; None if the driver names none of them, as in some containers."""
        function = getattr(self.library, "nvmlDeviceGetComputeRunningProcesses_v3", None)
        number, found = ctypes.c_uint(MOST_PROCESSES), (Process * MOST_PROCESSES)()
        if function is None or not asked(function, gpu[1], ctypes.byref(number), found):
            return None
        own = [one.memory for one in found[: number.value] if one.pid in processes and one.memory != UNKNOWN]
        return sum(own) if own else None

    def about(self, gpu: Any) -> Dict[str, Any]:
        """Return what the header has of a GPU, and its UUID."""
        memory = value_of(self.library, "nvmlDeviceGetMemoryInfo", Memory, gpu[1])
        name, uuid = (text_of(self.library, "nvmlDeviceGet" + what, gpu[1]) for what in ("Name", "UUID"))
        return {"index": gpu[0], "name": name, "memory": memory.total if memory else None, "uuid": uuid}

    def measure(self, gpu: Any, processes: Set[int]) -> Gpu:
        """Return what a GPU holds and draws now."""
        memory = value_of(self.library, "nvmlDeviceGetMemoryInfo", Memory, gpu[1])
        power = value_of(self.library, "nvmlDeviceGetPowerUsage", ctypes.c_uint, gpu[1])
        energy = value_of(self.library, "nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong, gpu[1])
        return {
            "memory": memory.used if memory else None,
            "own": self.own_memory(gpu, processes),
            "sms": self.active_sms(gpu),
            "power": None if power is None else power / 1000,
            "energy": None if energy is None else energy / 1000,
        }


AMD = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


class RocmSmi:
    """AMD's GPUs (rocm_smi.h)."""

    name = "rocm-smi"
    variables = AMD
    libraries = (
        *("librocm_smi64.so" + version for version in (".7", ".6", ".5", "")),
        "/opt/rocm/lib/librocm_smi64.so",
    )

    def __init__(self, library: Any) -> None:
        if not asked(library.rsmi_init, ctypes.c_uint64(0)):
            raise OSError
        self.library = library
        self.gpus: List[Any] = list(range(value_of(library, "rsmi_num_monitor_devices", ctypes.c_uint32) or 0))

    def about(self, gpu: Any) -> Dict[str, Any]:
        """Return what the header has of a GPU."""
        memory = value_of(self.library, "rsmi_dev_memory_total_get", ctypes.c_uint64, gpu, 0)
        name = text_of(self.library, "rsmi_dev_name_get", gpu)
        unique = value_of(self.library, "rsmi_dev_unique_id_get", ctypes.c_uint64, gpu)
        return {"index": gpu, "name": name, "memory": memory, "uuid": "GPU-%016x" % unique if unique else ""}

    def interval(self, gpu: Any) -> float:
        """Return the seconds after which the use must be read again: the library tells it of the moment."""
        return MOMENT

    def add_use(self, gpu: Any, use: Use, seconds: float) -> None:
        """Add the use of the last second."""
        percent = value_of(self.library, "rsmi_dev_busy_percent_get", ctypes.c_uint32, gpu)
        if percent is not None:
            use.add(min(percent, 100) / 100, min(seconds, MOMENT))

    def measure(self, gpu: Any, processes: Set[int]) -> Gpu:
        """Return what a GPU holds and draws now."""
        memory = value_of(self.library, "rsmi_dev_memory_usage_get", ctypes.c_uint64, gpu, 0)
        power = value_of(self.library, "rsmi_dev_power_ave_get", ctypes.c_uint64, gpu, 0)
        if power is None and hasattr(self.library, "rsmi_dev_power_get"):  # MI300 has no mean
            now, kind = ctypes.c_uint64(), ctypes.c_uint32()
            is_known = asked(self.library.rsmi_dev_power_get, gpu, ctypes.byref(now), ctypes.byref(kind))
            power = now.value if is_known else None
        return {
            "memory": memory,
            "own": None,
            "power": None if power is None else power / 1e6,
            "energy": self._energy(gpu),
        }

    def _energy(self, gpu: Any) -> Optional[float]:
        """Return the joules of the counter, whose unit (microjoules) the library tells beside it."""
        function = getattr(self.library, "rsmi_dev_energy_count_get", None)
        counted, unit, when = ctypes.c_uint64(), ctypes.c_float(), ctypes.c_uint64()
        named = (ctypes.byref(counted), ctypes.byref(unit), ctypes.byref(when))
        if function is None or not asked(function, gpu, *named):
            return None
        return float(counted.value * unit.value / 1e6) or None


class AmdFiles:
    """AMD's GPUs by the files of their driver, where ROCm SMI is not installed."""

    name = "amdgpu"
    variables = AMD
    libraries = ("",)

    def __init__(self, library: Any, root: str = "") -> None:
        folder = root + "/sys/class/drm"
        cards = [
            name for name in (os.listdir(folder) if os.path.isdir(folder) else []) if re.match("card[0-9]+$", name)
        ]
        devices = {os.path.realpath(folder + "/" + name + "/device") for name in cards}
        self.gpus: List[Any] = [
            (place, device)
            for place, device in enumerate(sorted(devices))
            if number_in(device + "/gpu_busy_percent") is not None and number_in(device + "/mem_info_vram_total")
        ]

    def about(self, gpu: Any) -> Dict[str, Any]:
        """Return what the header has of a GPU."""
        name = read(gpu[1] + "/product_name").strip() or "AMD GPU"
        memory, unique = number_in(gpu[1] + "/mem_info_vram_total"), read(gpu[1] + "/unique_id").strip()
        return {"index": gpu[0], "name": name, "memory": memory, "uuid": "GPU-" + unique if unique else ""}

    def interval(self, gpu: Any) -> float:
        """Return the seconds after which the use must be read again: the file tells it of the moment."""
        return MOMENT

    def add_use(self, gpu: Any, use: Use, seconds: float) -> None:
        """Add the use of the last second."""
        percent = number_in(gpu[1] + "/gpu_busy_percent")
        if percent is not None:
            use.add(min(percent, 100) / 100, min(seconds, MOMENT))

    def measure(self, gpu: Any, processes: Set[int]) -> Gpu:
        """Return what a GPU holds and draws now."""
        hwmon = gpu[1] + "/hwmon"
        names = os.listdir(hwmon) if os.path.isdir(hwmon) else []
        draws = [
            number_in(hwmon + "/" + name + "/" + file) for name in names for file in ("power1_average", "power1_input")
        ]
        watts = next((draw / 1e6 for draw in draws if draw is not None), None)
        return {"memory": number_in(gpu[1] + "/mem_info_vram_used"), "own": None, "power": watts, "energy": None}


class Gpus:
    """The GPUs of the job on this node, by the vendor's library that answers; none if none does."""

    def __init__(self) -> None:
        self.vendor: Any = None
        self.about: List[Dict[str, Any]] = []
        for vendor in (Nvml, RocmSmi, AmdFiles):
            self.vendor = self._open(vendor)
            if self.vendor is not None and self.vendor.gpus:
                break
            self.vendor = None
        if self.vendor is not None:
            known = [(gpu, self.vendor.about(gpu)) for gpu in self.vendor.gpus]
            chosen = of_the_job([about for _, about in known], self.vendor.variables, os.environ)
            self.vendor.gpus = [gpu for gpu, about in known if about in chosen]
            chosen = [about for _, about in known if about in chosen]
            self.about = [{name: about[name] for name in ("index", "name", "memory")} for about in chosen]
            self.vendor = self.vendor if chosen else None
        now = time.time()
        self.uses = [Use() for _ in self.about]
        self.read_at = [now for _ in self.about]

    @staticmethod
    def _open(vendor: Any) -> Any:
        for name in vendor.libraries:
            try:
                return vendor(ctypes.CDLL(name) if name else None)
            except (OSError, AttributeError):
                continue
        return None

    def read_use(self, at_end: bool = False) -> None:
        """Read the use of every GPU for which it is time; ``at_end``: of all."""
        now = time.time()
        for place, gpu in enumerate(self.vendor.gpus if self.vendor is not None else []):
            seconds = now - self.read_at[place]
            if seconds > 0 and (at_end or seconds >= self.vendor.interval(gpu) - MARGIN):
                self.vendor.add_use(gpu, self.uses[place], seconds)
                self.read_at[place] = now

    def measure(self, processes: Set[int]) -> List[Gpu]:
        """Return what every GPU holds and draws now. ``processes``: those of the job."""
        return [self.vendor.measure(gpu, processes) for gpu in self.vendor.gpus] if self.vendor is not None else []


def of_the_job(gpus: List[Dict[str, Any]], variables: Sequence[str], given: Mapping[str, str]) -> List[Dict[str, Any]]:
    """Return the GPUs of the job on this node: none of a run that asked for none, else those that Slurm names.

    All, if Slurm names as many as are seen: a cgroup hides others, and numbers them again. Without Slurm those that
    ``variables`` leave visible in the environment ``given``.
    """
    if given.get("HPCLAUNCH_EXPECT_GPU") == "0" and "HPCLAUNCH_COMPONENT" not in given:  # which have their own
        return []
    text = next((given[name] for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS") if given.get(name)), "")
    if not text:
        return visible(gpus, variables, given)
    words = text.split(",")
    chosen = [gpu for gpu in gpus if any(is_named(gpu, gpu["index"], word) for word in words)]
    return chosen if chosen and len(gpus) > len(words) else gpus


def visible(gpus: List[Dict[str, Any]], variables: Sequence[str], given: Mapping[str, str]) -> List[Dict[str, Any]]:
    """Return the GPUs that a program sees: the rule of visible_gpus in hpclaunch/core/hardware.py.

    Each variable after the first counts among what is left. A word that names no GPU ends the list.
    """
    left = list(gpus)
    for name in (one for one in variables if one in given):
        if name == "CUDA_VISIBLE_DEVICES" and "HIP_VISIBLE_DEVICES" in variables and "HIP_VISIBLE_DEVICES" in given:
            continue  # another name of it
        numbered = [(place if len(variables) > 1 else gpu["index"], gpu) for place, gpu in enumerate(left)]
        left = []
        for word in given[name].split(","):
            named = next((gpu for number, gpu in numbered if is_named(gpu, number, word.strip())), None)
            if named is None:
                break
            left += [] if named in left else [named]
    return left


def is_named(gpu: Dict[str, Any], number: int, word: str) -> bool:
    """Whether a word means a GPU that is counted by a number: that number, or the beginning of its UUID."""
    if word.isdigit():
        return number == int(word)
    return len(word) > len("GPU-") and gpu["uuid"].lower().startswith(word.lower())


class Rapl:
    """The energy of the node's processors and memory (Linux powercap); a node's, not a job's share of it."""

    def __init__(self, root: str = "") -> None:
        folder = root + "/sys/class/powercap"
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        kinds = {name: read(folder + "/" + name + "/name") for name in names if name.startswith("intel-rapl:")}
        known = [folder + "/" + name for name, kind in kinds.items() if re.match("package|dram", kind)]
        self.folders = [place for place in known if number_in(place + "/energy_uj") is not None]
        self.last = [number_in(place + "/energy_uj") or 0 for place in self.folders]

    def joules(self) -> float:
        """Return the energy since the last call. The counters begin again at a maximum."""
        total = 0
        for place, folder in enumerate(self.folders):
            now = number_in(folder + "/energy_uj")
            if now is not None:
                more = now - self.last[place]
                total += more if more >= 0 else more + (number_in(folder + "/max_energy_range_uj") or -more)
                self.last[place] = now
        return total / 1e6


def network(root: str = "") -> Tuple[int, int]:
    """Return the bytes that this node has received and sent: all devices, and RDMA beside them.

    A bridge or a bond repeats the bytes of its devices, and IP over InfiniBand (type 32) those of the port.
    """
    folder = root + "/sys/class/net"
    names = [name for name in (os.listdir(folder) if os.path.isdir(folder) else []) if name != "lo"]
    devices = [name for name in names if os.path.exists(folder + "/" + name + "/device")] or names
    used = [folder + "/" + name for name in devices if number_in(folder + "/" + name + "/type") != 32]
    totals = [sum(number_in(one + "/statistics/" + way + "_bytes") or 0 for one in used) for way in ("rx", "tx")]
    adapters = root + "/sys/class/infiniband"
    for adapter in os.listdir(adapters) if os.path.isdir(adapters) else []:
        ports = adapters + "/" + adapter + "/ports"
        for port in os.listdir(ports) if os.path.isdir(ports) else []:
            for place, way in enumerate(("rcv", "xmit")):  # in units of four bytes
                totals[place] += 4 * (number_in("%s/%s/counters/port_%s_data" % (ports, port, way)) or 0)
    return totals[0], totals[1]


def mean(values: Sequence[Optional[float]]) -> Optional[float]:
    """Return the mean of the values that are known."""
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 4) if known else None


def most(values: Sequence[Any]) -> Any:
    """Return the largest of the values that are known."""
    return max((value for value in values if value is not None), default=None)


class Sampler:
    """Measures the node every INTERVAL seconds, and makes a line of what was measured since the last one."""

    def __init__(self, ranks: Ranks, cgroup: Cgroup) -> None:
        self.ranks = ranks
        self.cgroup = cgroup
        self.gpus = Gpus()
        self.rapl = Rapl()
        self.began = time.time()
        self.measured = self.began
        first = self.gpus.measure(set())
        has_power = any(gpu["energy"] is not None or gpu["power"] is not None for gpu in first)
        self.sources = {
            "cpu": "proc" if self.cgroup.cpu() is None else "cgroup",
            "memory": "pss" if self.cgroup.memory() is None else "cgroup",
            "gpu": self.gpus.vendor.name if self.gpus.vendor is not None else None,
            "energy": "+".join((["rapl"] if self.rapl.folders else []) + (["gpu"] if has_power else [])) or None,
        }
        self.cpu_at = self.cgroup.cpu() or 0.0
        self.net_at = network()
        self.rank_at: Dict[int, Dict[str, float]] = {}
        self.energy_at = [gpu["energy"] for gpu in first]
        self.pss_due = self.began
        self.cost = 0.0
        self._begin_line()

    def _begin_line(self) -> None:
        self.now: Dict[int, Dict[str, float]] = {}
        self.is_due = False
        self.moments: List[List[Gpu]] = []
        self.gpus.uses = [Use() for _ in self.gpus.about]
        self.memory: List[Optional[int]] = []
        self.pss: Dict[int, int] = {}
        self.joules = 0.0
        self.sms = [Use() for _ in self.gpus.about]

    def header(self, node: str, attempt: str) -> Dict[str, Any]:
        """Return the first line."""
        variables = [os.environ.get(name, "") for name in ("SLURM_CPUS_ON_NODE", "SLURM_MEM_PER_NODE")]
        cpus, megabytes = (int(text) if text.isdigit() else 0 for text in variables)
        return {
            "format": 1,
            "node": node,
            "attempt": attempt,
            "interval": INTERVAL,
            "began": round(self.began, 2),
            "cpus": self.cgroup.cpus() or cpus or len(os.sched_getaffinity(0)),
            "memory_limit": self.cgroup.limit() or megabytes * 2**20 or None,
            "gpus": self.gpus.about,
            "sources": self.sources,
        }

    def measure(self) -> None:
        """Measure what is no sum: memory and GPUs. PSS is read as rarely as its cost requires."""
        before = time.process_time()
        self.ranks.reread()
        self.now, self.is_due = self.ranks.measure(), True
        self._measure_gpus()
        self.cost = time.process_time() - before
        began = time.process_time()
        if time.time() >= self.pss_due:
            for rank, size in self.ranks.memory().items():
                self.pss[rank] = max(size, self.pss.get(rank, 0))
            self.pss_due = time.time() + (time.process_time() - began) / SHARE - 0.5
        if self.sources["memory"] == "cgroup":
            self.memory.append(self.cgroup.memory())
        elif self.pss:
            self.sources["memory"] = self.ranks.memory_source
            self.memory.append(sum(self.pss.values()))

    def _measure_gpus(self) -> None:
        gpus = self.gpus.measure({process for process, _ in self.ranks.members})
        seconds = time.time() - self.measured
        for gpu, before in zip(gpus, self.energy_at):
            if gpu["energy"] is not None and before is not None:
                self.joules += max(0.0, gpu["energy"] - before)
            else:
                self.joules += (gpu["power"] or 0.0) * seconds
        self.energy_at = [gpu["energy"] for gpu in gpus]
        self.joules += self.rapl.joules()
        self.measured = time.time()
        for use, gpu in zip(self.sms, gpus):
            if gpu.get("sms") is not None:
                use.add(gpu["sms"], seconds)
        if gpus:
            self.moments.append(gpus)

    def line(self, now: float) -> Dict[str, Any]:
        """Return the line of the time since the last one."""
        net, cpu = network(), self.cgroup.cpu()
        ranks = {str(rank): self._rank(rank, values) for rank, values in sorted(self.now.items())}
        on_cgroup = self.sources["cpu"] == "cgroup" and cpu is not None
        used = max(0.0, (cpu or 0.0) - self.cpu_at) if on_cgroup else sum(one["cpu"] for one in ranks.values())
        line = {
            "t": round(now, 2),
            "cpu": round(used, 3),
            "ranks": ranks,
            "memory": most(self.memory),
            "gpu": [self._gpu(place) for place in range(len(self.gpus.about))],
            "net": {"in": max(0, net[0] - self.net_at[0]), "out": max(0, net[1] - self.net_at[1])},
            "joules": round(self.joules, 1) if self.sources["energy"] else None,
        }
        self.net_at, self.cpu_at = net, cpu or 0.0
        self.rank_at.update({rank: dict(values) for rank, values in self.now.items()})
        self._begin_line()
        return line

    def _rank(self, rank: int, values: Dict[str, float]) -> Dict[str, Any]:
        before = self.rank_at.get(rank, {})
        more = {name: max(0.0, value - before.get(name, 0.0)) for name, value in values.items()}
        return {
            "cpu": round(more["cpu"], 2),
            "pss": self.pss.get(rank),
            "read": int(more["read"]),
            "write": int(more["write"]),
        }

    def _gpu(self, place: int) -> Dict[str, Any]:
        moments = [gpus[place] for gpus in self.moments if place < len(gpus)]
        memory, own = (most([one[name] for one in moments]) for name in ("memory", "own"))
        power = mean([one["power"] for one in moments])
        sms = self.sms[place].values()["use"]
        return {**self.gpus.uses[place].values(), "sms": sms, "memory": memory, "own": own, "power": power}

    def has_uses(self) -> bool:
        """Whether the use of a GPU was read since the last line."""
        return any(use.seconds for use in self.gpus.uses)


class Pace:
    """When the node is measured, and when a line is made of it."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler
        self.interval, self.lines, self.written = INTERVAL, 0, time.time()
        self.due = self.written + FIRST

    def look(self) -> List[Dict[str, Any]]:
        """Measure what is due; return the line that is due, if one is. It is called once a second, or more often."""
        self.sampler.gpus.read_use()
        now = time.time()
        if now < self.due:
            return []
        self.sampler.measure()
        pause = max(INTERVAL, self.sampler.cost / SHARE)
        # After the first measurement: less.
        self.due = pause + (self.written if now - self.written < INTERVAL else now)
        if now - self.written < self.interval:
            return []
        self.written, self.lines = now, self.lines + 1
        self.interval = min(LONGEST, INTERVAL * 2 ** (self.lines // LINES))
        return [self.sampler.line(now)]

    def end(self) -> List[Dict[str, Any]]:
        """Return the rest of the last interval, if anything was measured in it."""
        self.sampler.gpus.read_use(at_end=True)
        is_due = self.sampler.is_due or self.sampler.has_uses()
        return [self.sampler.line(time.time())] if is_due else []


def append(path: str, value: Dict[str, Any]) -> None:
    """Append one line to a file, in one piece."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        os.write(descriptor, (json.dumps(value, separators=(",", ":")) + "\n").encode())
    finally:
        os.close(descriptor)


def leave_the_job_alone() -> None:
    """Hold nothing of the job's, and give way to it. Its shell's end wakes the sampler."""
    os.closerange(3, 4096)
    os.nice(19)
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGHUP, 0, 0, 0)


def sample(node: str, attempt: str, folder: str) -> None:
    """Measure until no rank of this node lives."""
    place = os.path.join(folder, node + "-" + attempt)
    signal.alarm(HANGS)  # its default action ends this process
    ranks = Ranks(place + ".ranks")
    # A run inside an allocation (submit --here) may have other runs beside it.
    sampler = Sampler(ranks, Cgroup("SLURM_JOB_ID" in os.environ and not attempt.startswith("by-hand")))
    append(place + ".jsonl", sampler.header(node, attempt))
    pace = Pace(sampler)
    while any_lives(ranks):
        for line in pace.look():
            append(place + ".jsonl", line)
        signal.alarm(0)
        signal.sigtimedwait({signal.SIGHUP}, max(0.01, min(1.0, pace.due - time.time())))
        signal.alarm(HANGS)
    for line in pace.end():
        append(place + ".jsonl", line)


def any_lives(ranks: Ranks) -> bool:
    """Whether a rank of this node lives, also one that has begun since the last look."""
    if ranks.lives():
        return True
    ranks.reread()
    return ranks.lives()


def main(arguments: Sequence[str]) -> None:
    """Sample this node. Nothing is reported: the samples end, and the job continues."""
    try:
        leave_the_job_alone()
        sample(*arguments)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
