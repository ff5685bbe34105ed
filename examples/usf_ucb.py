"""USF-UCB in one file, on numpy alone, to be read beside the paper.

Run it: python examples/usf_ucb.py

A 9×9 grid; features φ that say in which of nine regions a cell lies; for each task vector z the best policy for the
reward φ·z, and its successor features ψ(s;z) = Σ_k γᵏ φ(S_{t+k+1}). The reward φ·z_r + noise is hidden. At each step
the method tries the z that could be best, learns from the reward of the state entered, and ends on the best region.
"""

import numpy as np

SIZE, GAMMA, NOISE = 9, 0.99, 0.3
RIDGE = NOISE**2  # λ
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # up, down, left, right


def build_world():
    """Where each action leads from each state, states row by row; the border blocks."""
    cells = [(row, column) for row in range(SIZE) for column in range(SIZE)]

    def clip(x):
        return min(max(x, 0), SIZE - 1)

    return np.array([[clip(r + dr) * SIZE + clip(c + dc) for dr, dc in MOVES] for r, c in cells])


def build_features():
    """φ(s): which of the 3×3 regions the state is in, one-hot."""
    row, column = np.divmod(np.arange(SIZE * SIZE), SIZE)
    return np.eye(9)[row // 3 * 3 + column // 3]


def successor_features(z, next_state, phi, sweeps=1500):
    """ψ(s;z) of the optimal policy for each z [n d], by value iteration: [S n d], and the policies [n S]."""
    reward = z @ phi.T  # [n S]
    v = np.zeros_like(reward)
    for _ in range(sweeps):
        v = (reward + GAMMA * v)[:, next_state].max(-1)
    policy = (reward + GAMMA * v)[:, next_state].argmax(-1)
    follows = next_state[np.arange(len(phi)), policy]  # [n S]
    psi = np.zeros((len(z), *phi.shape))
    for _ in range(sweeps):
        psi = np.take_along_axis(phi[None] + GAMMA * psi, follows[..., None], 1)
    return psi.transpose(1, 0, 2), policy


def beta(t):
    """The paper's β_t: 1 until 50, then linearly to 0 at 150."""
    return float(np.clip((150 - t) / 100, 0, 1))


def choose(psi, z_hat, V, t):
    """Z_t = argmax_z ψ(s;z)·ẑ + √β_t ‖ψ(s;z)‖_{V⁻¹}  (eq. 5); psi [n d] of the candidates at s."""
    norm = np.sqrt(np.einsum("ni,ij,nj->n", psi, np.linalg.inv(V), psi))
    return int(np.argmax(psi @ z_hat + np.sqrt(beta(t)) * norm))


def transfer(task, candidates, psi, policy, next_state, phi, rng, steps=200):
    """Online transfer: yields the state entered, the reward seen and the estimate ẑ."""
    d = phi.shape[1]
    V, b, z_hat = RIDGE * np.eye(d), np.zeros(d), np.zeros(d)
    state = int(rng.integers(len(phi)))
    for t in range(steps):
        i = choose(psi[state], z_hat, V, t)  # ask
        state = int(next_state[state, policy[i, state]])  # act: A_t ~ π(·|S_t, Z_t)
        reward = phi[state] @ task + NOISE * rng.standard_normal()
        V, b = V + np.outer(phi[state], phi[state]), b + phi[state] * reward  # tell (eq. 3)
        z_hat = np.linalg.solve(V, b)
        yield state, reward, z_hat


def sphere(n, d, rng):
    """Z: the sphere of radius √d."""
    z = rng.standard_normal((n, d))
    return np.sqrt(d) * z / np.linalg.norm(z, axis=1, keepdims=True)


def main():
    """One hidden task, found."""
    rng = np.random.default_rng(0)
    next_state, phi = build_world(), build_features()
    candidates = sphere(300, phi.shape[1], rng)
    psi, policy = successor_features(candidates, next_state, phi)
    task = sphere(1, phi.shape[1], rng)[0]
    best = (phi @ task).max()
    for t, (state, _, z_hat) in enumerate(transfer(task, candidates, psi, policy, next_state, phi, rng)):
        if t % 20 == 19:
            worth, error = phi[state] @ task, np.linalg.norm(z_hat - task)
            print(f"after {t + 1:3} rewards: here {worth:5.2f}, best {best:.2f}; ‖ẑ − z_r‖ = {error:.2f}")


if __name__ == "__main__":
    main()
