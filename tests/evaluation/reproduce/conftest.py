from tests.evaluation.reproduce.cases import no_data

__all__ = ["no_data"]
