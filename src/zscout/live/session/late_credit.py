"""Which steps a person's thumb is about.

A person reacts late. A thumb at time t is about what was shown from t − 1.0 s to t − 0.2 s, all of it alike: a uniform
kernel. While a thumb is held, its window moves on, so that every step shown meanwhile gets the same reward. A step
keeps its first reward.
"""

SOONEST, LATEST = 0.2, 1.0  # seconds between what is shown and the thumb


def credited(step: int, pace: float) -> range:
    """The steps that a thumb is about if ``step`` is shown and ``pace`` steps pass in a second; at least one."""
    last = step - round(SOONEST * pace)
    first = step - max(round(LATEST * pace), round(SOONEST * pace))
    return range(max(1, first), max(1, last) + 1)


def out_of_reach(newest: int, fastest: float) -> int:
    """The newest step that is too old for any thumb; below 1 if there is none."""
    return newest - round(LATEST * fastest) - 1
