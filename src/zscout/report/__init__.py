"""Tables to figures: everything here draws numbers that the lab made, and computes none of its own."""
