# examples/numpy_programs/physics.py: integrators, fields, particles and automata
import numpy as np

from . import image, matrix, points, program, side, three, two, vector


@program(vector)
def heat_rod(u):
    u = u.copy()
    for _ in range(8):
        u[1:-1] += 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


@program(matrix)
def heat_plate(u):
    u = u.copy()
    for _ in range(4):
        u[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
    return u


@program(two)
def wave(u, v):
    for _ in range(4):
        acceleration = np.roll(u, 1) + np.roll(u, -1) - 2 * u
        v = v + 0.1 * acceleration
        u = u + 0.1 * v
    return u, v


@program(vector)
def upwind_advection(u):
    for _ in range(5):
        u = u - 0.3 * (u - np.roll(u, 1))
    return u


@program(matrix)
def laplacian(u):
    return sum(np.roll(u, shift, axis) for shift in (1, -1) for axis in (0, 1)) - 4 * u


@program(matrix)
def gray_scott(u):
    v = np.where(u > 1, 0.5, 0.1)
    for _ in range(2):
        lap_u = sum(np.roll(u, s, a) for s in (1, -1) for a in (0, 1)) - 4 * u
        lap_v = sum(np.roll(v, s, a) for s in (1, -1) for a in (0, 1)) - 4 * v
        reaction = u * v * v
        u, v = u + 0.16 * lap_u - reaction + 0.035 * (1 - u), v + 0.08 * lap_v + reaction - 0.1 * v
    return u, v


@program(lambda r, n: (r.integers(0, 2, (side(n), side(n))),))
def game_of_life(cells):
    near = sum(np.roll(cells, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
    return ((near == 3) | ((cells == 1) & (near == 2))).astype(cells.dtype)


@program(lambda r, n: (r.integers(0, 2, n),))
def rule_110(cells):
    table = np.array([0, 1, 1, 1, 0, 1, 1, 0])
    for _ in range(3):
        cells = table[4 * np.roll(cells, 1) + 2 * cells + np.roll(cells, -1)]
    return cells


@program(lambda r, n: (r.standard_normal((side(n), 3)), r.uniform(1, 2, side(n))))
def gravity(x, mass):
    off = x[None, :, :] - x[:, None, :]
    near = np.sum(off**2, axis=-1) + 0.01
    return np.sum(off * (mass[None, :] / near**1.5)[:, :, None], axis=1)


@program(lambda r, n: (r.standard_normal((side(n), 2)), r.standard_normal((side(n), 2))))
def springs_by_einsum(x, v):
    off = x[:, None] - x[None]
    length = np.sqrt(np.einsum("ijk,ijk->ij", off, off) + 1e-3)
    force = -np.einsum("ij,ijk->ik", 1 - 1 / length, off)
    return x + 0.01 * v, v + 0.01 * force


@program(lambda r, n: (r.standard_normal((side(n), 3)),))
def lennard_jones(x):
    off = x[:, None, :] - x[None, :, :]
    near = np.sum(off**2, axis=-1) + np.eye(x.shape[0])
    power = near**-3
    return 0.5 * np.sum(np.triu(4 * (power**2 - power), 1))


@program(points)
def angular_momentum(x):
    v = np.roll(x, 1, axis=0)
    return np.cross(x, v).sum(axis=0)


@program(points)
def rotated(x):
    a = 0.3
    turn = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    return x @ turn.T


@program(points)
def centre_and_inertia(x):
    x = x - x.mean(axis=0)
    return np.einsum("ni,nj->ij", x, x), np.trace(x.T @ x)


@program(two)
def pendulum_runge_kutta(angle, speed):
    def slope(a, s):
        return s, -np.sin(a)

    h = 0.05
    for _ in range(2):
        k1 = slope(angle, speed)
        k2 = slope(angle + h / 2 * k1[0], speed + h / 2 * k1[1])
        k3 = slope(angle + h / 2 * k2[0], speed + h / 2 * k2[1])
        k4 = slope(angle + h * k3[0], speed + h * k3[1])
        angle = angle + h / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
        speed = speed + h / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
    return angle, speed


@program(three)
def lorenz_step(x, y, z):
    return x + 0.01 * 10 * (y - x), y + 0.01 * (x * (28 - z) - y), z + 0.01 * (x * y - 8 / 3 * z)


@program(three)
def velocity_verlet(x, v, mass):
    mass = np.abs(mass) + 1
    a = -x / mass
    for _ in range(3):
        x = x + 0.1 * v + 0.005 * a
        new = -x / mass
        v = v + 0.05 * (a + new)
        a = new
    return x, v


@program(three)
def periodic_box(x, v, size):
    x = x + 0.5 * v
    x -= 2.0 * np.floor(x / 2.0)
    v = np.where(np.abs(size) > 1, -v, v)
    return x, v


@program(two)
def in_place_leapfrog(x, v):
    x, v = x.copy(), v.copy()
    for _ in range(3):
        v -= 0.1 * x
        x += 0.1 * v
    return x, v


@program(two)
def into_a_buffer(x, y):
    out = np.empty_like(x)
    np.multiply(x, y, out=out)
    np.add(out, 1.0, out=out)
    np.sqrt(np.abs(out), out=out)
    return out


@program(lambda r, n: (r.choice([-1, 1], (side(n), side(n))),))
def ising_energy(spin):
    return -np.sum(spin * (np.roll(spin, 1, 0) + np.roll(spin, 1, 1))), spin.mean()


@program(lambda r, n: (r.choice([-1, 1], (side(n), side(n))), np.random.default_rng(3)))
def ising_sweep(spin, rng):
    near = np.roll(spin, 1, 0) + np.roll(spin, -1, 0) + np.roll(spin, 1, 1) + np.roll(spin, -1, 1)
    board = np.indices(spin.shape).sum(axis=0) % 2 == 0
    accept = rng.random(spin.shape) < np.exp(-0.8 * spin * near)
    return np.where(board & accept, -spin, spin)


@program(lambda r, n: (r.uniform(-2, 1, n), r.uniform(-1, 1, n)))
def mandelbrot(x, y):
    c = x + 1j * y
    z = np.zeros_like(c)
    count = np.zeros(c.shape, np.int64)
    for _ in range(8):
        z = np.where(np.abs(z) < 2, z * z + c, z)
        count += np.abs(z) < 2
    return count


@program(lambda r, n: (r.uniform(-2, 1, n), r.uniform(-1, 1, n)))
def mandelbrot_of_reals(x, y):
    a, b, count = np.zeros_like(x), np.zeros_like(y), np.zeros(x.shape, np.int32)
    for _ in range(10):
        a, b = a * a - b * b + x, 2 * a * b + y
        inside = a * a + b * b < 4
        a, b = np.where(inside, a, 4.0), np.where(inside, b, 0.0)
        count += inside
    return count


@program(vector)
def plane_wave(x):
    psi = np.exp(-(x**2)) * np.exp(3j * x)
    density = np.abs(psi) ** 2
    return density / density.sum(), np.sum(np.conj(psi) * x * psi)


@program(vector)
def schroedinger_split_step(x):
    n = x.shape[0]
    psi = np.exp(-(x**2) + 0j)
    k = 2 * np.pi * np.fft.fftfreq(n, 0.1)
    psi = psi * np.exp(-0.005j * x**2)
    psi = np.fft.ifft(np.exp(-0.005j * k**2) * np.fft.fft(psi))
    return np.abs(psi) ** 2


@program(matrix)
def divergence_and_curl(u):
    v = u.T
    du = np.gradient(u)
    dv = np.gradient(v)
    return du[1] + dv[0], dv[1] - du[0]


@program(matrix)
def spectral_derivative(u):
    k = np.fft.fftfreq(u.shape[1]) * 2 * np.pi
    return np.fft.ifft(1j * k * np.fft.fft(u, axis=1), axis=1).real


@program(matrix)
def potential_of_charges(x):
    grid_y, grid_x = np.meshgrid(np.arange(x.shape[0]), np.arange(x.shape[1]), indexing="ij")
    return x / np.hypot(grid_x - 3.5, grid_y - 3.5)


@program(image)
def diffusion_with_walls(u):
    wall = np.zeros(u.shape, bool)
    wall[0, :] = wall[-1, :] = True
    wall[:, 0] = wall[:, -1] = True
    u = u + np.float32(0.1) * (np.roll(u, 1, 0) + np.roll(u, -1, 0) - 2 * u)
    u[wall] = 0
    return u


@program(lambda r, n: (r.uniform(0.5, 3, n),))
def newton_root(a):
    x = a.copy()
    for _ in range(6):
        x -= (x**3 - a) / (3 * x**2)
    return x


@program(lambda r, n: (r.uniform(200, 400, n), r.uniform(0, 2, n)))
def ideal_and_real_gas(temperature, volume):
    volume = volume + 0.1
    return np.select([volume < 0.5, volume < 1.5], [8.314 * temperature / (volume - 0.04) - 0.36 / volume**2, temperature], 0.0)


@program(lambda r, n: (np.random.default_rng(8), side(n)))
def brownian_paths(rng, n):
    paths = np.cumsum(rng.normal(0, 0.1, size=(n, n)), axis=1)
    return paths.var(axis=0), np.abs(paths).max(axis=1)
