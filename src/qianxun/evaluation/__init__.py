"""Measurement of search quality on labelled datasets.

`experiment.run` searches for every query of a `dataset` with one way of searching and measures the rankings with
`metrics`; `experiment.compare` tests the difference of two runs. `calibration` fits the curve that turns cosines into
scores. Nothing here knows the engine: the way of searching is a function (`engine.admin.evaluate` brings it). Imports
`core` only.
"""
