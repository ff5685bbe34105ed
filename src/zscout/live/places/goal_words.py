"""Goal features of a body in words: sliders and bars of the page, and sentences about what seems to pay."""

from collections.abc import Sequence
from dataclasses import dataclass

from zscout.worlds.bodies import quadruped
from zscout.worlds.bodies.goals import COS_PITCH, HEIGHT, PITCH_RATE, SIN_PITCH, SPEED

WORTH_SAYING = 0.25  # correlations below this are not put into words
NAMED_FEATURES = 3  # features in a sentence


@dataclass(frozen=True)
class Goal:
    """A goal feature, with a word for much of it and one for little."""

    index: int  # in the goal features
    name: str
    title: str
    low: str
    high: str


PITCH_WORDS = {"cheetah": ("Nose", "nose up", "nose down")}  # the other bodies stand upright and lean

QUADRUPED = (
    Goal(quadruped.FORWARD, "speed", "Speed", "backward", "forward"),
    Goal(quadruped.LEFTWARD, "sideways", "Sideways", "to the right", "to the left"),
    Goal(quadruped.TURN_RATE, "turn", "Turn", "turning right", "turning left"),
    Goal(quadruped.UPRIGHT, "upright", "Upright", "upside down", "upright"),
    Goal(quadruped.STRETCH, "stretch", "Stretch", "low", "tall"),
    Goal(quadruped.ROLL_RATE, "roll", "Roll", "rolling left", "rolling right"),
)


def goals_of(body: str) -> tuple[Goal, ...]:
    """The goal features that the page shows of a body; without angular momentum, which goes with the pitch rate."""
    if body == quadruped.QUADRUPED:
        return QUADRUPED
    return (
        Goal(SPEED, "speed", "Speed", "backward", "forward"),
        Goal(HEIGHT, "height", "Height", "low", "high"),
        Goal(COS_PITCH, "upright", "Upright", "upside down", "upright"),
        Goal(SIN_PITCH, "pitch", *PITCH_WORDS.get(body, ("Lean", "lean back", "lean forward"))),
        Goal(PITCH_RATE, "spin", "Spin", "rolling back", "rolling over"),
    )


def in_words(goals: Sequence[Goal], correlations: Sequence[float]) -> str:
    """The features that go with a reward, the strongest first: "forward (0.8), upright (0.5)"; "" if there are none."""
    strongest = sorted(zip(goals, correlations, strict=True), key=lambda pair: -abs(pair[1]))[:NAMED_FEATURES]
    words = [(goal.high if r > 0 else goal.low, abs(r)) for goal, r in strongest if abs(r) >= WORTH_SAYING]
    return ", ".join(f"{word} ({share:.1f})" for word, share in words)
