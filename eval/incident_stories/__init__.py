"""The recorded incidents, written as small simulations.

Each story module has one `build() -> Incident`: requests are simulated first, and both the log lines and the metric
samples are read off the same simulated requests, so that the two never contradict each other.
"""
