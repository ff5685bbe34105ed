"""What the page shows of each kind of world."""
