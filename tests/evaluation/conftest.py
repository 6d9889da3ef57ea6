from tests.evaluation.cases import no_data

__all__ = ["no_data"]
