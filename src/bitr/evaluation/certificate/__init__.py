"""The equivariance certificate: do the three laws hold for a model, layer by layer and end to end?"""

from bitr.evaluation.certificate.certificate import Certificate, Row, Skipped
from bitr.evaluation.certificate.making import audit, certify
from bitr.evaluation.certificate.routes import Route

__all__ = ["Certificate", "Route", "Row", "Skipped", "audit", "certify"]
