"""The paper's claims and figures."""
