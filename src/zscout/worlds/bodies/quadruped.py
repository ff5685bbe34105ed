"""The suite's quadruped: a torso that moves freely in space, on four legs."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.worlds.bodies.goals import legs
from zscout.worlds.bodies.physics import Body, Mapped, load_model

QUADRUPED = "quadruped"
LEGS = ("front_left", "front_right", "back_right", "back_left")  # as in MuJoCo's positions
TORSO, FRONT = 0.1, (0.1, 0.3)  # from where to where the drawn torso and eyes reach along the body, in metres
VIEW = (0.5, 0.25)  # a picture is seen from the side, above and behind: metres to the right and up for each to the left

# Entries of the goal features; those of speed are along the torso's axes.
UPRIGHT, FORWARD, LEFTWARD, UPWARD, ROLL_RATE, PITCH_RATE, TURN_RATE, STRETCH = range(8)


class Quadruped(Body):
    """Positions are the torso's place, its orientation (a quaternion), and yaw, pitch, knee and ankle of each leg.

    Sensors are the torso's acceleration and the forces and torques at the toes. The suite's observation has neither
    height nor place nor heading, so no task depends on them.
    """

    name = geometry = QUADRUPED
    physics_steps, observation_size = 4, 78
    goal_names = ("upright", "forward", "leftward", "upward", "roll rate", "pitch rate", "turn rate", "stretch")
    mapped = (Mapped(UPRIGHT, -1.0, 1.0), Mapped(FORWARD, -4.0, 4.0))

    def __init__(self, *, repeat: int = 1, threads: int | None = None) -> None:
        model = load_model(QUADRUPED, _only_body, sensors=True)
        names = ["imu_accel", *(f"{kind}_toe_{leg}" for kind in ("force", "torque") for leg in LEGS)]
        columns = [int(model.sensor(name).adr[0]) + k for name in names for k in range(3)]
        super().__init__(model, columns, repeat, threads)
        hips = [model.body(f"hip_{leg}") for leg in LEGS]
        self._hips = torch.tensor(np.stack([hip.pos for hip in hips]))
        self._headings = torch.tensor([2 * np.arctan2(hip.quat[3], hip.quat[0]) for hip in hips])  # of the legs
        self._radii = torch.tensor(
            [0.2, 0.05, *(model.geom(f"{bone}_{leg}").size[0] for leg in LEGS for bone in ("thigh", "shin", "foot"))]
        )

    def random_states(self, n: int, rng: Generator) -> Float[Tensor, "n k"]:
        """Starts as dm_control's: any orientation, all joints at 0, less than a centimetre above the floor."""
        turned = torch.randn(n, 4, generator=rng, device=rng.device, dtype=torch.float64).cpu()
        state = self.rest.repeat(n, 1)
        state[:, 3:7] = turned / turned.norm(dim=-1, keepdim=True)
        state[:, 2] = (self._depth(state) * 100).ceil() / 100
        sensed, _ = self._simulate(state, np.zeros((n, len(self._half))), 0)
        return sensed.to(rng.device)

    def observe(self, state: Float[Tensor, "*b k"]) -> Float[Tensor, "*b o"]:
        """dm_control's observations: joints, velocity along the torso's axes, how upright, acceleration and rotation,
        forces and torques at the toes."""
        position, velocity, _, activation, sensors = self.parts(state)
        axes = _axes(position[..., 3:7])
        return torch.cat(
            [
                position[..., 7:],
                velocity[..., 6:],
                activation,
                (velocity[..., None, :3] @ axes)[..., 0, :],
                axes[..., 2, 2:],
                sensors[..., :3],
                velocity[..., 3:6],
                sensors[..., 3:].asinh(),
            ],
            -1,
        )

    def segments(self, state: Float[Tensor, "*b k"]) -> tuple[Float[Tensor, "*b s 2 2"], Float[Tensor, " s"]]:
        """Torso, eyes, and thigh, shin and foot of each leg, seen from the side, above and behind."""
        position = self.parts(state).position
        chain = legs(self.geometry, position[..., 7:])  # [*b leg joint 2]
        heading = self._headings.to(state) + position[..., 7::4]
        outward = torch.stack([heading.cos(), heading.sin(), torch.zeros_like(heading)], -1)
        upward = torch.tensor([0.0, 0.0, 1.0]).to(state)
        joints = chain[..., :1] * outward[..., None, :] + chain[..., 1:] * upward
        joints = joints + self._hips.to(state)[:, None]
        bones = torch.stack([joints[..., :-1, :], joints[..., 1:, :]], -2).flatten(-4, -3)
        fixed = torch.zeros(2, 2, 3).to(state)
        fixed[0, :, 0], fixed[1, :, 0] = torch.tensor([-TORSO, TORSO]), torch.tensor(FRONT)
        fixed[1, :, 2] = 0.1  # the eyes
        body = torch.cat([fixed.expand(*bones.shape[:-3], 2, 2, 3), bones], -3)
        aside, across, up = (body @ _axes(position[..., 3:7])[..., None, :, :].mT).unbind(-1)
        x, y, z = (part[..., None, None] for part in position[..., :3].unbind(-1))
        return torch.stack([x + aside + VIEW[0] * (y + across), z + up + VIEW[1] * across], -1), self._radii.to(state)

    @property
    def far(self) -> list[bool]:
        """The left legs."""
        return [False, False, *(leg.endswith("left") for leg in LEGS for _ in range(3))]

    def _depth(self, state: Float[Tensor, "n k"]) -> Float[Tensor, " n"]:
        """How far the lowest point is below the torso's centre, for bodies with all joints at 0."""
        import mujoco

        data = mujoco.MjData(self.model)
        data.qpos[3:7] = 1, 0, 0, 0
        data.qpos[:3] = 0
        mujoco.mj_kinematics(self.model, data)
        down = -_axes(state[:, 3:7])[:, 2].numpy()  # in the torso's frame
        lowest = []
        for k in np.flatnonzero(self.model.geom_bodyid):
            size, kind = self.model.geom_size[k], self.model.geom_type[k]
            along = down @ data.geom_xmat[k].reshape(3, 3)  # in the geom's frame
            if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
                reach = np.linalg.norm(along * size, axis=1)
            elif kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
                reach = size[1] * np.abs(along[:, 2]) + size[0] * np.hypot(along[:, 0], along[:, 1])
            else:  # a sphere has no length
                length = size[1] if kind == mujoco.mjtGeom.mjGEOM_CAPSULE else 0.0
                reach = size[0] + length * np.abs(along[:, 2])
            lowest.append(down @ data.geom_xpos[k] + reach)
        return torch.from_numpy(np.max(lowest, 0))


def _axes(quaternion: Float[Tensor, "*b 4"]) -> Float[Tensor, "*b 3 3"]:
    """The rotation matrix: its columns are the torso's axes."""
    w, x, y, z = (quaternion / quaternion.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def _only_body(spec: Any) -> None:
    """Remove what the suite's walk and run do not have: walls, ball, target, terrain, range finders."""
    unused = [geom for geom in spec.geoms if geom.name == "terrain" or geom.name.startswith("wall")]
    unused += [body for body in spec.bodies if body.name == "ball"]
    unused += [site for site in spec.sites if site.name == "target"]
    unused += [sensor for sensor in spec.sensors if sensor.name.startswith("rf_")]
    for element in unused:
        spec.delete(element)
