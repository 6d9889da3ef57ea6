"""Evaluation: metrics, methods to compare, tables, the certificate, and the paper's experiments again."""
