"""Repeatable measurements. Each prints one JSON document of ratios; absolute times depend on the machine."""
