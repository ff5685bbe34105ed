"""The report: HTML page, figures and tables, drawn from tables of the lab; also runs in the terminal and as GIFs."""
