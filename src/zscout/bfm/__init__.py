"""π and ψ, trained once, then frozen; and the exact ones, to judge by."""
