"""Naive twins: the paper's equations, literally, edge by edge. Slow, and the oracle of the fast ones."""
