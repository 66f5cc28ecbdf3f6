"""The matter of a universe at four times, in the Zel'dovich approximation, from camb's linear power spectrum.

Lengths are in Mpc/h, wave numbers in h/Mpc. It needs NumPy and camb, and reads and writes no file.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Those of the published data (NERSC/cosmoflow-sims, janWorkflow/prepMusic_4parC.sh, commit bdda3bd); the order of their
# channels is not known here.
REDSHIFTS = (3.0, 1.5, 0.5, 0.0)
PARTICLES = 2  # particles per voxel and direction: 8 per voxel
BARYONS = 0.0224  # Omega_b h^2, the same in all universes: Planck 2018 (arXiv 1807.06209), table 2
AMPLITUDE = 2e-9  # of camb's spectrum, before it is scaled to sigma_8
LARGEST, SMALLEST = 10.0, 1e-4  # wave numbers between which camb gives the spectrum
NAMES = ("omega_m", "sigma_8", "n_s", "h_0")
# Omega_m, sigma_8 and n_s: those of the simulations of CosmoFlow's authors (NERSC/cosmoflow-sims, MUSIC/OmSiNs/
# runCode.py, commit b25f62b), Mathuriya et al. 2018 (arXiv 1808.04728). They kept H_0 (km/s/Mpc) at 70.3
# (balewski/cosmoflow-sims, ics_template.conf in that folder, commit 6c96b17). Its range here is about that of another
# data set of theirs, with a mean of 70.1 and a standard deviation of 5.69, so 19.7 wide if it is uniform
# (NERSC/CosmoFlow, hyper_parameters_Cosmo.py, commit 03c36de).
RANGES = ((0.25, 0.35), (0.78, 0.95), (0.9, 1.0), (60.0, 80.0))


class Spectrum(NamedTuple):
    """The linear matter power spectrum today, and the growth of the density contrast at each of REDSHIFTS (1 today).

    wave_numbers: [k], in h/Mpc, ascending. power: [k], in (Mpc/h)^3.
    """

    wave_numbers: np.ndarray
    power: np.ndarray
    growth: np.ndarray

    def at(self, wave_numbers: np.ndarray) -> np.ndarray:
        """The power at these wave numbers, interpolated in the logarithms; 0 at wave number 0."""
        known = np.log(np.maximum(wave_numbers, SMALLEST))
        power = np.exp(np.interp(known, np.log(self.wave_numbers), np.log(self.power)))
        return np.where(wave_numbers > 0, power, 0.0)


def random_of(seed: int, number: int) -> np.random.RandomState:
    """The random numbers of the universe with this number; RandomState draws the same with every version of NumPy."""
    return np.random.RandomState([seed, number])


def drawn_parameters(random: np.random.RandomState) -> np.ndarray:
    """The values of NAMES, float64 [4], each uniform in its range."""
    low, high = np.transpose(RANGES)
    return random.uniform(low, high)


def scaled(parameters: np.ndarray) -> np.ndarray:
    """The parameters as a network predicts them: -1 at the low end of its range, 1 at the high end; float32 [4]."""
    low, high = np.transpose(RANGES)
    return (2 * (parameters - low) / (high - low) - 1).astype(np.float32)


def linear_spectrum(parameters: np.ndarray) -> Spectrum:
    """What camb computes for a flat universe with a cosmological constant and massless neutrinos.

    parameters: the values of NAMES. The spectrum is scaled so that sigma_8 has its value. Growth is the ratio of camb's
    sigma_8 at two redshifts; without massive neutrinos it is the same on all scales of a volume.
    """
    import camb

    omega_m, sigma_8, n_s, h_0 = (float(value) for value in parameters)
    asked = camb.CAMBparams()
    asked.set_cosmology(H0=h_0, ombh2=BARYONS, omch2=omega_m * (h_0 / 100) ** 2 - BARYONS, mnu=0.0, omk=0.0, tau=0.06)
    asked.InitPower.set_params(As=AMPLITUDE, ns=n_s)
    asked.set_matter_power(redshifts=list(REDSHIFTS), kmax=LARGEST, silent=True)
    asked.WantCls = False
    found = camb.get_results(asked)
    wave_numbers, redshifts, power = found.get_matter_power_spectrum(minkh=SMALLEST, maxkh=LARGEST, npoints=400)
    sizes = found.get_sigma8()  # the latest time last, as camb sorts them
    today = float(sizes[-1])
    assert redshifts[0] == 0 and len(sizes) == len(REDSHIFTS)
    return Spectrum(wave_numbers, power[0] * (sigma_8 / today) ** 2, np.asarray(sizes) / today)


def density_modes(random: np.random.RandomState, spectrum: Spectrum, side: int, length: float) -> np.ndarray:
    """The Fourier modes of a Gaussian density contrast today: complex128 [side, side, side / 2 + 1], as np.fft.rfftn.

    side: points of the grid per direction, an even number. length: of the periodic box, in Mpc/h. White noise of
    variance 1 on the grid has modes of variance side^3. They are multiplied by sqrt(P(k) / V), V the volume of a cell.
    """
    noise = np.fft.rfftn(random.standard_normal((side, side, side)))
    return noise * np.sqrt(spectrum.at(wave_number(side, length)) / (length / side) ** 3)


def wave_number(side: int, length: float) -> np.ndarray:
    """The absolute wave number of each mode of `density_modes`, in h/Mpc."""
    x, y, z = _directions(side, length)
    return np.sqrt(x**2 + y**2 + z**2)


def displacements(modes: np.ndarray, side: int, length: float) -> list[np.ndarray]:
    """How far the particles of a grid have moved today along x, y and z: three arrays [side, side, side], in Mpc/h.

    Zel'dovich 1970: the divergence of the displacement is the negative density contrast, so its modes are i k / k^2
    times those of the density.
    """
    directions = _directions(side, length)
    squares = np.maximum(sum(one**2 for one in directions), SMALLEST**2)
    potential = 1j * modes / squares
    potential[0, 0, 0] = 0
    return [np.fft.irfftn(one * potential, s=(side,) * 3, axes=(0, 1, 2)) for one in directions]


def counts(moved: list[np.ndarray], growth: float, size: int, length: float) -> np.ndarray:
    """The number of particles in each voxel, int16 [size, size, size], when displacements are `growth` of today's.

    The box is periodic, so no particle is lost. Particles begin in the middle of the cells of their grid. Two
    displacements of the same particle at different times have the same direction: growth is all that changes.
    """
    side = len(moved[0])
    begin = (np.arange(side) + 0.5) * (size / side)
    voxel = np.zeros((side,) * 3, np.int64)
    for axis, distance in enumerate(moved):
        shape = [1, 1, 1]
        shape[axis] = side
        place = begin.reshape(shape) + distance * (growth * size / length)
        voxel = voxel * size + np.floor(place).astype(np.int64) % size
    found = np.bincount(voxel.ravel(), minlength=size**3)
    return np.minimum(found, np.iinfo(np.int16).max).astype(np.int16).reshape((size,) * 3)


def volume_of(seed: int, number: int, size: int, cell: float) -> tuple[np.ndarray, np.ndarray]:
    """A universe: the particles in each voxel at REDSHIFTS, int16 [size, size, size, 4], and the values of NAMES.

    cell: the side of a voxel, in Mpc/h.
    """
    random = random_of(seed, number)
    parameters = drawn_parameters(random)
    spectrum = linear_spectrum(parameters)
    side, length = PARTICLES * size, size * cell
    moved = displacements(density_modes(random, spectrum, side, length), side, length)
    return np.stack([counts(moved, growth, size, length) for growth in spectrum.growth], axis=-1), parameters


def _directions(side: int, length: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The components of the wave numbers, each in a shape that broadcasts to that of the modes."""
    whole = 2 * np.pi * np.fft.fftfreq(side, length / side)
    half = 2 * np.pi * np.fft.rfftfreq(side, length / side)
    return whole[:, None, None], whole[None, :, None], half[None, None, :]
