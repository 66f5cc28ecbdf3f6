"""Published throughputs and epochs, transcribed with their sources; it computes no prediction."""

from __future__ import annotations

from dataclasses import dataclass

from hpclaunch.guidelines.collectives import NCCL
from hpclaunch.guidelines.communication import Links
from hpclaunch.guidelines.throughput import Machine, Shape, Work

DGX_A100 = Machine(links=Links(gpu_gbytes_per_s=300, node_gbytes_per_s=200))
DGX_2H = Machine(links=Links(gpu_gbytes_per_s=150, node_gbytes_per_s=100))
DGX_1 = Machine(links=Links(gpu_gbytes_per_s=150, node_gbytes_per_s=50))
DGX_1_P100 = Machine(links=Links(gpu_gbytes_per_s=80, node_gbytes_per_s=50))
P100_25GBE = Machine(links=Links(gpu_gbytes_per_s=80, node_gbytes_per_s=3.125))
PERLMUTTER = Machine(links=Links(gpu_gbytes_per_s=300, node_gbytes_per_s=100))
JUWELS_BOOSTER = Machine(links=Links(gpu_gbytes_per_s=300, node_gbytes_per_s=100))
CORI_KNL = Machine(links=Links(gpu_gbytes_per_s=None, node_gbytes_per_s=8))
PIZ_DAINT = Machine(links=Links(gpu_gbytes_per_s=None, node_gbytes_per_s=10.2))

V100_16_NCCL = Machine(links=Links(gpu_gbytes_per_s=150, node_gbytes_per_s=12.5, library=NCCL))
DGX_2H_NCCL = Machine(links=Links(gpu_gbytes_per_s=150, node_gbytes_per_s=100, library=NCCL))

BERT_LARGE, INCEPTION_V3, VGG_16, RESNET_50 = 336.2e6, 23.82e6, 138.36e6, 25.58e6
BERT_BASE, TRANSFORMER_XL = 110.1e6, 285e6
EFFICIENTNET_B0, EFFICIENTNET_B4, COSMOFLOW_MODEL = 5.3e6, 19.3e6, 5.598e6
"""Parameters; gradients are float32."""
COSMOFLOW_SAMPLES = 524_288
"""Training samples of MLPerf HPC's CosmoFlow from version 1.0 on."""


def work(parameters: float) -> Work:
    """Return what a step of a model moves."""
    return Work(gradient_bytes=4 * parameters)


@dataclass(frozen=True, kw_only=True)
class Series:
    """One row of a table: samples/s by ranks. ``batches``: global batch sizes, if gradients accumulate."""

    table: str
    name: str
    machine: Machine
    parameters: float
    per_rank: int
    ranks_per_node: int
    ranks: tuple[int, ...]
    measured: tuple[float, ...]
    batches: tuple[int, ...] = ()

    def shape(self, index: int) -> Shape:
        """Return the layout of a run; accumulation follows from the global batch size, never from a printed one."""
        ranks = self.ranks[index]
        nodes = max(1, ranks // self.ranks_per_node)
        accumulation = self.batches[index] / (ranks * self.per_rank) if self.batches else 1
        return Shape(nodes=nodes, ranks_per_node=ranks // nodes, per_rank=self.per_rank, accumulation=accumulation)

    @property
    def calibrating(self) -> int:
        """How many of its sizes it is calibrated on: the smallest alone if it has only two."""
        return 1 if len(self.ranks) == 2 else 2

    @property
    def on_one_node(self) -> int:
        """The index of its largest size on one node."""
        return max(index for index, ranks in enumerate(self.ranks) if ranks <= self.ranks_per_node)


@dataclass(frozen=True, kw_only=True)
class Bert:
    """A document with multi-node rows of BERT-Large: its machine, ranks of a node, and node counts."""

    table: str
    machine: Machine
    ranks_per_node: int
    nodes: tuple[int, ...]

    def row(self, name: str, per_rank: int, batches: tuple[int, ...], measured: tuple[float, ...]) -> Series:
        """Return one row; a single global batch size is that of all node counts."""
        return Series(
            table=self.table,
            name=name,
            machine=self.machine,
            parameters=BERT_LARGE,
            per_rank=per_rank,
            ranks_per_node=self.ranks_per_node,
            ranks=tuple(count * self.ranks_per_node for count in self.nodes),
            measured=measured,
            batches=batches if len(batches) > 1 else batches * len(self.nodes),
        )


B512 = (32768, 65536, 65536, 65536)

# NVIDIA/DeepLearningExamples @729963d, TensorFlow2/LanguageModeling/BERT (T1), TensorFlow/LanguageModeling/BERT (T3),
# README.md, multi-node pre-training; sequences a second.
_TF2 = Bert(table="T1", machine=DGX_A100, ranks_per_node=8, nodes=(1, 2, 8, 32))
T1 = (
    _TF2.row("TF2 A100-80 s128 AMP", 312, (79872,), (3803.8, 7551.4, 29711, 110281)),
    _TF2.row("TF2 A100-80 s128 TF32", 176, (90112,), (2063.0, 4084.8, 16134, 59570)),
    _TF2.row("TF2 A100-80 s512 AMP", 40, (30720,), (749.7, 1491.9, 5870.8, 22506)),
    _TF2.row("TF2 A100-80 s512 TF32", 22, (33792,), (431.9, 739.1, 2926.6, 11241)),
)
_TF1_V100 = Bert(table="T3", machine=DGX_2H, ranks_per_node=16, nodes=(1, 4, 16, 32))
_TF1_A100 = Bert(table="T3", machine=DGX_A100, ranks_per_node=8, nodes=(1, 4, 16, 32))
T3 = (
    _TF1_V100.row("TF1 DGX-2H s128 AMP", 64, (65536,), (3081.7, 13192, 48223, 86674)),
    _TF1_V100.row("TF1 DGX-2H s128 FP32", 32, (65536,), (761.9, 3389.8, 13218, 25142)),
    _TF1_A100.row("TF1 A100-40 s128 AMP", 64, (65536,), (2871.9, 11159, 41144, 77480)),
    _TF1_A100.row("TF1 A100-40 s128 TF32", 64, (65536,), (1889.7, 7532, 28606, 53586)),
    _TF1_A100.row("TF1 A100-40 s512 AMP", 16, B512, (572.1, 2197.4, 8723.1, 16705)),
    _TF1_A100.row("TF1 A100-40 s512 TF32", 8, B512, (316.5, 1268.4, 4903.4, 9463.8)),
)

# The same two documents: TF2 on DGX-2H, and TF1 on DGX-2H with sequences of 512.
_OTHER = Bert(table="others", machine=DGX_2H, ranks_per_node=16, nodes=(1, 4, 16, 32))
OTHERS = (
    _OTHER.row("TF2 DGX-2H s128 AMP", 60, (61440,), (3528.51, 13370.21, 42697.42, 84223.16)),
    _OTHER.row("TF2 DGX-2H s128 FP32", 32, (65536,), (841.72, 3060.49, 10383.57, 20094.14)),
    _OTHER.row("TF2 DGX-2H s512 AMP", 10, (30720,), (678.35, 2678.29, 7834.72, 18786.93)),
    _OTHER.row("TF2 DGX-2H s512 FP32", 4, (32768,), (180, 646.76, 2204.72, 4196.15)),
    _OTHER.row("TF1 DGX-2H s512 AMP", 8, (32768,), (577.79, 2284.23, 8853.00, 17059.00)),
    _OTHER.row("TF1 DGX-2H s512 FP32", 8, (32768,), (173.26, 765.04, 3001.43, 5893.14)),
)


@dataclass(frozen=True, kw_only=True)
class Images:
    """A document with rows of image models on one kind of node."""

    table: str
    machine: Machine
    ranks_per_node: int

    def row(
        self, name: str, parameters: float, per_rank: int, ranks: tuple[int, ...], measured: tuple[float, ...]
    ) -> Series:
        """Return one row."""
        return Series(
            table=self.table,
            name=name,
            machine=self.machine,
            parameters=parameters,
            per_rank=per_rank,
            ranks_per_node=self.ranks_per_node,
            ranks=ranks,
            measured=measured,
        )


# tensorflow/docs r1/guide/performance/benchmarks.md: P100 DGX-1, synthetic images a second; not Horovod.
_P100, _GPUS = Images(table="T6", machine=DGX_1_P100, ranks_per_node=8), (1, 2, 4, 8)
T6 = (
    _P100.row("Inception V3 b64", INCEPTION_V3, 64, _GPUS, (142, 284, 569, 1131)),
    _P100.row("ResNet-50 b64", RESNET_50, 64, _GPUS, (219, 422, 852, 1734)),
    _P100.row("ResNet-50 b32", RESNET_50, 32, _GPUS, (195, 368, 768, 1485)),
    _P100.row("ResNet-152 b64", 60.34e6, 64, _GPUS, (91.8, 181, 356, 716)),
    _P100.row("AlexNet b512", 62.38e6, 512, _GPUS, (2987, 5658, 10509, 17822)),
    _P100.row("VGG16 b64", VGG_16, 64, _GPUS, (154, 295, 584, 1081)),
    _P100.row("VGG16 b32", VGG_16, 32, _GPUS, (144, 281, 549, 820)),
)

# NVIDIA/DeepLearningExamples @077c388, TensorFlow2/Classification/ConvNets/efficientnet_v1/README.md; batch sizes from
# its training scripts.
_B_A100 = Images(table="EffNet", machine=DGX_A100, ranks_per_node=8)
_B_V100 = Images(table="EffNet", machine=DGX_1, ranks_per_node=8)
_TO_64 = (1, 8, 32, 64)
EFFICIENTNET = (
    _B_A100.row("B4 A100 AMP", EFFICIENTNET_B4, 160, _TO_64, (470, 3550, 12908, 25455)),
    _B_A100.row("B4 A100 TF32", EFFICIENTNET_B4, 80, _TO_64, (165, 1308, 4782, 9473)),
    _B_V100.row("B4 V100 AMP", EFFICIENTNET_B4, 64, _TO_64, (211, 1258, 4325, 8643)),
    _B_V100.row("B4 V100 FP32", EFFICIENTNET_B4, 32, _TO_64, (79, 570, 1855, 3568)),
    _B_A100.row("B0 A100 AMP", EFFICIENTNET_B0, 1024, (1, 8, 16), (3454, 20647, 40644)),
    _B_A100.row("B0 A100 TF32", EFFICIENTNET_B0, 512, (1, 8, 16), (1209, 9119, 17815)),
    _B_V100.row("B0 V100 AMP", EFFICIENTNET_B0, 512, (1, 8, 32), (868, 4880, 18424)),
    _B_V100.row("B0 V100 FP32", EFFICIENTNET_B0, 256, (1, 8, 32), (752, 4504, 15309)),
)

# The same repository, TensorFlow/Classification/ConvNets/resnet50v1.5/README.md: XLA, averages of an epoch.
_R_A100 = Images(table="RN50", machine=DGX_A100, ranks_per_node=8)
_R_V100 = Images(table="RN50", machine=DGX_1, ranks_per_node=8)
_R_DGX2 = Images(table="RN50", machine=DGX_2H, ranks_per_node=16)
RESNETS = (
    _R_A100.row("A100 AMP", RESNET_50, 256, (1, 8), (2375, 17400)),
    _R_A100.row("A100 TF32", RESNET_50, 256, (1, 8), (909, 7000)),
    _R_V100.row("DGX-1 AMP", RESNET_50, 256, (1, 8), (1270, 9510)),
    _R_V100.row("DGX-1 FP32", RESNET_50, 128, (1, 8), (412, 3170)),
    _R_DGX2.row("DGX-2 AMP", RESNET_50, 256, (1, 16), (1300, 17250)),
    _R_DGX2.row("DGX-2 FP32", RESNET_50, 128, (1, 16), (432, 6500)),
)


@dataclass(frozen=True, kw_only=True)
class Cosmo:
    """Logs of MLPerf HPC's CosmoFlow on one machine: samples/s are the samples by the seconds of an epoch."""

    machine: Machine
    ranks_per_node: int
    samples: int = COSMOFLOW_SAMPLES

    def row(self, name: str, per_rank: int, ranks: tuple[int, ...], seconds: tuple[float, ...]) -> Series:
        """Return one row; validation is part of the seconds."""
        return Series(
            table="MLPerf",
            name=name,
            machine=self.machine,
            parameters=COSMOFLOW_MODEL,
            per_rank=per_rank,
            ranks_per_node=self.ranks_per_node,
            ranks=ranks,
            measured=tuple(self.samples / second for second in seconds),
        )


# mlcommons/hpc_results_v0.7 @3edadef, v1.0: runs of one submission and code that differ in size alone.
MLPERF = (
    Cosmo(machine=PERLMUTTER, ranks_per_node=4).row("Perlmutter v1.0", 1, (512, 1024), (20.7, 10.3)),
    Cosmo(machine=DGX_A100, ranks_per_node=8).row("DGX A100 v1.0", 1, (128, 1024), (64.3, 9.6)),
    Cosmo(machine=JUWELS_BOOSTER, ranks_per_node=4).row("JUWELS Booster v1.0", 1, (512, 1024), (24.2, 11.8)),
    Cosmo(machine=CORI_KNL, ranks_per_node=1, samples=262_144).row("Cori KNL v0.7", 1, (512, 1024), (279.5, 152.3)),
    Cosmo(machine=PIZ_DAINT, ranks_per_node=1, samples=262_144).row("Piz Daint v0.7", 2, (128, 256), (379.4, 170.7)),
)

# PyTorch with NCCL: Oneflow-Inc/DLPerf @c89430b, NVIDIADeepLearningExamples/PyTorch, 4 nodes of 8 V100 with 16 GB and
# one card of 100 Gb/s; NVIDIA/DeepLearningExamples @729963d, PyTorch/LanguageModeling/Transformer-XL, 8 DGX-2H, tokens
# by 384.
_DLPERF = Images(table="PyTorch", machine=V100_16_NCCL, ranks_per_node=8)
_XL = Images(table="PyTorch", machine=DGX_2H_NCCL, ranks_per_node=16)
_TO_32, _TO_128 = (1, 4, 8, 16, 32), (16, 32, 64, 128)
PYTORCH = (
    _DLPERF.row("ResNet-50 FP32", RESNET_50, 128, _TO_32, (367.29, 1449.48, 2887.65, 5716.79, 10917.09)),
    _DLPERF.row("ResNet-50 AMP", RESNET_50, 256, _TO_32, (802.9, 3137.44, 6154.66, 11991.94, 22551.16)),
    _DLPERF.row("BERT-base FP32 b32", BERT_BASE, 32, _TO_32, (119.6, 457.72, 921.32, 1499.4, 2885.81)),
    _DLPERF.row("BERT-base FP32 b48", BERT_BASE, 48, _TO_32, (121.94, 464.66, 928.01, 1584.32, 3039.3)),
    _DLPERF.row("BERT-base AMP b64", BERT_BASE, 64, _TO_32, (444.51, 1671.66, 3251.7, 4936.92, 9331.72)),
    _DLPERF.row("BERT-base AMP b96", BERT_BASE, 96, _TO_32, (462.35, 1727.93, 3287.12, 5426.07, 10349.12)),
    _XL.row("Transformer-XL FP32", TRANSFORMER_XL, 4, _TO_128, (179.87, 356.67, 703.44, 1339.84)),
    _XL.row("Transformer-XL AMP", TRANSFORMER_XL, 4, _TO_128, (403.52, 800.83, 1576.90, 3098.18)),
)

SERIES = (*T1, *T3, *T6, *OTHERS, *EFFICIENTNET, *RESNETS, *MLPERF, *PYTORCH)


@dataclass(frozen=True, kw_only=True)
class Unmeasured:
    """A published throughput of a bundled job, which a plan predicts from defaults alone.

    ``rates``: samples/s; several where several were published for one machine and layout. ``gpus``: of a node.
    ``settings``: further ones of the job, such as the shape of a decoder.
    """

    name: str
    job: str
    site: str
    node_type: str
    nodes: int
    gpus: int
    per_rank: int
    rates: tuple[float, ...]
    precision: str = "float32"
    settings: tuple[tuple[str, int], ...] = ()


# Notebooks 3 and 4 of the Distributed Deep Learning bootcamp ("DGX-1"; V100 is a reading): steps of 13.7 ms on one GPU,
# 19, 23 and 34 ms on eight (without batch norm, with it, with LAMB); MirroredStrategy on eight GPUs; 60,000 images by
# the seconds of an epoch for Horovod, epochs 2 to 8. MLPerf HPC logs (v0.7, v1.0, v3.0), whose seconds include
# validation; those of v1.0 and v3.0 are MXNet's.
UNMEASURED = (
    Unmeasured(
        name="notebook 4, 1 V100",
        job="cifar",
        site="dgx1",
        node_type="gpu",
        nodes=1,
        gpus=1,
        per_rank=512,
        rates=(37_400,),
    ),
    Unmeasured(
        name="notebook 4, 8 V100",
        job="cifar",
        site="dgx1",
        node_type="gpu",
        nodes=1,
        gpus=8,
        per_rank=512,
        rates=(119_767, 177_521, 222_000),
    ),
    Unmeasured(
        name="notebook 3, 8 V100, Mirrored",
        job="mnist",
        site="dgx1",
        node_type="gpu",
        nodes=1,
        gpus=8,
        per_rank=512,
        rates=(195_126, 222_244),
    ),
    Unmeasured(
        name="notebook 3, 1 V100",
        job="mnist",
        site="dgx1",
        node_type="gpu",
        nodes=1,
        gpus=1,
        per_rank=1024,
        rates=(66_176,),
    ),
    Unmeasured(
        name="notebook 3, 8 V100",
        job="mnist",
        site="dgx1",
        node_type="gpu",
        nodes=1,
        gpus=8,
        per_rank=2048,
        rates=(403_422, 486_914, 516_328),
    ),
    Unmeasured(
        name="CosmoFlow v0.7, Cori GPU",
        job="cosmoflow",
        site="cori",
        node_type="gpu",
        nodes=8,
        gpus=8,
        per_rank=1,
        rates=(678,),
    ),
    Unmeasured(
        name="CosmoFlow, Perlmutter, TF32",
        job="cosmoflow",
        site="perlmutter",
        node_type="gpu40",
        nodes=128,
        gpus=4,
        per_rank=1,
        rates=(25_300, 43_700),
    ),
    Unmeasured(
        name="CosmoFlow v1.0, Perlmutter, bf16",
        job="cosmoflow",
        site="perlmutter",
        node_type="gpu40",
        nodes=256,
        gpus=4,
        per_rank=1,
        rates=(51_000,),
        precision="bfloat16",
    ),
)
# mosaicml/llm-foundry @8c8dd48, scripts/train/benchmarking/README.md: FSDP, bfloat16, sequences of 2,048 tokens; by its
# tokens a second, on the fewest nodes of the table. Blocks, hidden size and heads are those of its configurations.
_MPT = {
    "125m": (12, 768, 12),
    "350m": (24, 1024, 16),
    "760m": (24, 1536, 12),
    "1b": (24, 2048, 16),
    "3b": (32, 2560, 20),
    "7b": (32, 4096, 32),
    "13b": (40, 5120, 40),
    "30b": (48, 7168, 56),
}


def _mpt(site: str, size: str, nodes: int, per_rank: int, rate: float) -> Unmeasured:
    layers, hidden, heads = _MPT[size]
    shape = (("layers", layers), ("hidden", hidden), ("heads", heads), ("context", 2048), ("vocabulary", 50368))
    return Unmeasured(
        name=f"MPT-{size}, {site}",
        job="transformer",
        site=site,
        node_type="gpu",
        nodes=nodes,
        gpus=8,
        per_rank=per_rank,
        rates=(rate,),
        precision="bfloat16",
        settings=shape,
    )


DECODERS = (
    _mpt("a100", "125m", 1, 26, 532.56),
    _mpt("a100", "350m", 1, 16, 218.73),
    _mpt("a100", "760m", 1, 12, 117.87),
    _mpt("a100", "1b", 1, 8, 75.28),
    _mpt("a100", "3b", 1, 5, 39.32),
    _mpt("a100", "7b", 1, 12, 14.37),
    _mpt("a100", "13b", 1, 4, 6.517),
    _mpt("h100", "760m", 1, 24, 246.67),
    _mpt("h100", "1b", 1, 14, 177.56),
    _mpt("h100", "3b", 2, 10, 188.62),
    _mpt("h100", "13b", 1, 2, 18.72),
    _mpt("h100", "30b", 1, 3, 7.823),
)
_HGX_SITE = """
title: nodes with eight GPUs
scheduler: slurm
defaults: {{node_type: gpu, walltime: "01:00:00"}}
node_types:
  gpu:
    title: eight {gpu}
    cpu: AMD EPYC 7742 (Rome)
    sockets: 2
    cores_per_node: 128
    memory_gb: 1024
    gpus_per_node: 8
    gpu_model: NVIDIA {gpu}
    gpu_memory_gb: {memory}
    gpu_links: {{type: NVLink, gpu_gbytes_per_s: {inside}}}
    nics: {{count: 8, model: the table's, gbytes_per_s_each: {each}}}
gpus: {{directive: gpus-per-node}}
launchers: {{default: srun, options: {{srun: {{}}}}}}
"""
A100_SITE = _HGX_SITE.format(gpu="A100 (SXM4)", memory=40, inside=300, each=25)
H100_SITE = _HGX_SITE.format(gpu="H100 (SXM5)", memory=80, inside=450, each=50)
"""The machines of the MPT tables: 1,600 and 3,200 Gb/s of a node's network."""
# Measured on one H200 of 700 W with plain PyTorch 2.11 (CUDA 13.0) on 2026-11-27: samples a second, medians of at least
# 12 steps of synthetic input. ResNet-50 with SGD and momentum, float32 as TF32, bfloat16 with channels last. GPT with
# fused AdamW and flash attention. Compiled models are no rows: nothing of a plan knows of a compiler.
H200_JOB = """
summary: ResNet-50 in PyTorch
command: [python, train.py]
framework: pytorch
parameters:
  batch_size_per_rank: {default: 128}
  precision: {default: float32, choices: [float32, bfloat16]}
  optimizer: {default: sgd}
  momentum: {default: 0.9}
training:
  samples: 1281167
  figures:
    {parameters: 25557032, flops_per_sample: 8186102616, saved_bytes_per_sample: 97046352, operations: 2069}
"""
"""The figures are those of the bundled job resnet50."""


def _h200(name: str, job: str, per_rank: int, rate: float, precision: str, shape: tuple[int, ...] = ()) -> Unmeasured:
    keys = ("layers", "hidden", "heads", "context", "vocabulary", "corpus_tokens")
    return Unmeasured(
        name=f"H200, {name}, {per_rank} in {precision}",
        job=job,
        site="h200",
        node_type="gpu",
        nodes=1,
        gpus=1,
        per_rank=per_rank,
        rates=(rate,),
        precision=precision,
        settings=tuple(zip(keys, shape, strict=False)),
    )


_GPT_124M, _GPT_1B = (12, 768, 12, 1024, 50304, 10**11), (24, 2048, 16, 2048, 50304, 10**11)
H200 = (
    _h200("ResNet-50", "h200-resnet50", 32, 1078.9, "bfloat16"),
    _h200("ResNet-50", "h200-resnet50", 128, 4268.7, "bfloat16"),
    _h200("ResNet-50", "h200-resnet50", 256, 4614.9, "bfloat16"),
    _h200("ResNet-50", "h200-resnet50", 128, 2097.8, "float32"),
    _h200("ResNet-50", "h200-resnet50", 256, 2185.9, "float32"),
    _h200("GPT 124M", "transformer", 4, 141_190 / 1024, "bfloat16", _GPT_124M),
    _h200("GPT 124M", "transformer", 16, 320_836 / 1024, "bfloat16", _GPT_124M),
    _h200("GPT 124M", "transformer", 32, 349_051 / 1024, "bfloat16", _GPT_124M),
    _h200("GPT 1.3B", "transformer", 4, 51_442 / 2048, "bfloat16", _GPT_1B),
    _h200("GPT 1.3B", "transformer", 8, 54_629 / 2048, "bfloat16", _GPT_1B),
    _h200("GPT 1.3B", "transformer", 16, 56_864 / 2048, "bfloat16", _GPT_1B),
)
H200_SITE = """
title: a node with one H200
scheduler: slurm
defaults: {node_type: gpu, walltime: "01:00:00"}
node_types:
  gpu:
    title: one H200
    cpu: Intel Xeon Platinum 8480C (Sapphire Rapids)
    sockets: 1
    cores_per_node: 16
    memory_gb: 128
    gpus_per_node: 1
    gpu_model: NVIDIA H200
    gpu_memory_gb: 141
gpus: {directive: gpus-per-node}
launchers: {default: srun, options: {srun: {}}}
"""
DGX_1_SITE = """
title: a DGX-1 with eight V100
scheduler: slurm
defaults: {node_type: gpu, walltime: "01:00:00"}
node_types:
  gpu:
    title: eight V100
    cpu: Intel Xeon E5-2698 v4
    sockets: 2
    cores_per_node: 40
    memory_gb: 512
    gpus_per_node: 8
    gpu_model: NVIDIA V100 (SXM2)
    gpu_memory_gb: 16
    gpu_links: {type: NVLink2, gpu_gbytes_per_s: 150}
    nics: {count: 4, model: EDR, gbytes_per_s_each: 12.5}
gpus: {directive: gpus-per-node}
launchers: {default: srun, options: {srun: {}}}
"""
"""The machine of the notebooks, as a site file (NVIDIA, data sheet of the DGX-1, 2017)."""

# mlcommons/hpc_results_v0.7 @3edadef, closed division: global batch size, median epochs of the successful runs.
COSMOFLOW: dict[str, tuple[int, float]] = {
    "Cori GPU, 64 ranks": (64, 52.5),
    "HAL, 16 nodes": (64, 54.5),
    "Frontera RTX, 16 nodes": (64, 48.5),
    "Piz Daint, 128 nodes": (256, 70.0),
    "Piz Daint, 256 nodes": (512, 103.0),
    "ABCI, 512 ranks": (512, 98.5),
    "Fugaku, 512 nodes": (512, 102.5),
    "Fugaku, 8192 nodes": (512, 92.5),
    "Cori KNL, 512 nodes": (512, 110.5),
    "Cori KNL, 1024 nodes": (1024, 162.0),
}
