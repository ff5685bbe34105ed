"""The constants of the default, ``usf-ucb``: what each is, and the data on which it was chosen.

Logs: results/default.md (grids), atlas.md, feedback.md. Numbers that guard against rounding, memory or time are beside
the code that needs them.
"""

# Without an atlas: chosen on tuning tasks of the 9×9 grid, clusters and Laplacian
RIDGE = 0.1  # λ of a model without a prior over tasks
KAPPA = 1.6  # of the radius
CAUTION = 8.0  # c of the radius, which widens it while few directions are seen
KAPPA_CHOSEN_FOR = 9  # chosen on decoys; directions: the radius grows with the square root of their number
BONUS_GAMMA = 0.8  # discount of M in the bonus
BURST, FIRST_BURST, BURST_STEPS = 2.2, 400, 12  # factor of the radius, from step 400·2ᵏ on, for 12; runs of 5,000 steps
TABLE, SOLVED_TABLE = 1_000, 128  # candidates z: if ψ is exact; if each costs a solved system (by time)

# Prior over tasks: chosen on 40 named and 60 linear tasks of the point maze, which no table reports
MODEL_RIDGE = 1.0  # λ of the model's own prior, which V begins with
PRIOR_RIDGES = (1.0, 10.0, 0.1, 0.01)  # λ relative to it, by evidence
DOUBT = 2.0  # nats: another prior is e² = 7 times less likely beforehand, another λ too; thumbs on the walker

# With an atlas: chosen on the walker's held-out tasks
ATLAS_KAPPA = 1.0  # of the radius
ATLAS_RIDGES = (1.0, 0.3, 0.1, 3.0)  # λ, by evidence
WORTH = 400.0  # steps of own experience that count as much as the atlas

# With an atlas: chosen on random rewards of all bodies, seed 1, which no table reports
HOLD_SHARE = 0.5  # of the settling time that the chart measured: steps for which a z is kept
WIDTHS = (0.3, 0.6, 1.2)  # of sines: standard deviations of an input, times √(number of inputs of a sine)
GOAL_WAVES, WAVES = 48, 24  # sines of each width: of the goal features, of the observation
BESIDE = 0.3  # size of φ, and of the sines of the entries if there are goal features, beside sines of size 1

# With an atlas: chosen on 12 tasks of walker and cheetah, before and after a change
ALIKE = 8.0  # rewards in a row that count as one in a change test, because their errors are alike

# Not tuned
STEADY = 0.5  # start_share below which z decides more than the start: then the default uses the atlas
TRIED_ONCE = 16  # behaviours up to which each is tried once
SETTLED = 0.2  # share of the steps after a start that are not counted: the way to where a behaviour goes
CLAMPED_AT = 4.0  # standard deviations: an input of a sine beyond counts as there
CHANGE_EVIDENCE, CHANGE_MEMORY = 10.0, 64  # nats that restart the posterior; rewards that are looked back at
LOGITS = (0.5, 1.5, 4.5, 13.5)  # of preferences: standard deviation of x before any label, equally likely
FLIPS = ((0.02, 0.5), (0.1, 0.3), (0.25, 0.2))  # of preferences: f and its prior probability
