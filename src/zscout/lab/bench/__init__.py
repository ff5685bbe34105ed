"""Speed, as ratios within one run to references that are written plainly, and distances to what is possible."""
