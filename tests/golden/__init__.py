"""The golden record: what agents decided on fixed feeds, held against every change of the inside."""
