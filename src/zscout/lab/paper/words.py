"""What the report says in words alone: how we deviate from the paper, and where the paper slips."""

DEVIATIONS = (
    "Regret counts from t = 0 and, in our tables, against v* rather than π(·,z_r), so that a poor model cannot look "
    "good; both stand in the records. In units of lost steps: regret ÷ mean of v* − v_random over states and 1,000 "
    "tasks.",
    "λ, which the paper does not give, is σ² = .09 in `usf-ucb-paper`, and 1 in pure exploration.",
    "The radius of our default follows the scale of the rewards seen (κ√λ·ŝ) and needs neither σ nor a schedule; the "
    "paper's schedule is kept in `usf-ucb-paper`. Its lost steps stand beside it in the league table.",
    "Our default's bonus is √tr(V⁻¹M) at γ = .9 where a model offers M, and ‖ψ‖ in V⁻¹ where not (claims 10b, 10c).",
    "Laplacian eigenfunctions are scaled so that ‖φ(s)‖² is 1 in the mean over states; unit vectors drown in σ = .3.",
    "Z is the sphere of radius √d, also in training.",
    "ẑ and the last z are candidates beside the random ones. With an exact ψ the others are a fixed bank of 1,000 z; "
    "with a network they are the ends of fixed-point rounds z ← ẑ + √β V⁻¹ψ/‖ψ‖, since of 10,000 random z a learned ψ "
    "picks the most over-rated (the table of searches).",
    "Ties are broken at random: most z share their policy with others.",
    "The networks are trained by another recipe (an actor on long chains, then ψ of that actor) and without "
    "dropout; the paper's recipe and each difference are measured in docs/training.md.",
)

SLIPS = (
    "Regret is summed from t = 1 in eq. 1, 2 and 6 and in appendix B.1, from t = 0 in appendix A.4; sums from t = 1 "
    "leave out the first choice.",
    "Eq. 13 ends with β_t where √β_t is meant: the radius of the ellipsoid in the norm of V is √β_t, and so is the "
    "factor of the optimistic part two lines below.",
    "ψ and M in the appendix are sums from k = 1 of γ^{t+k}; with ψ as defined in section 2 it is k = 0 and γᵏ.",
    "The training text speaks of the sum of φ(S_k) for k ≥ t; ψ begins with the state that is entered, S_{t+1}.",
    "Training samples z from the √d-diameter ball, section 3 has Z as the sphere of radius √d: twice as far out.",
    "The ellipsoid of eq. 4 is defined within Z, the sphere; ẑ is not on the sphere, so that for small β_t their "
    "intersection is empty, and eq. 8 has nothing to choose from.",
    "Cov(ẑ) = σ²V⁻¹ leaves out what λ does: it is σ²V⁻¹ΦᵀΦV⁻¹, which is less, and ẑ is biased by −λV⁻¹z_r.",
)
