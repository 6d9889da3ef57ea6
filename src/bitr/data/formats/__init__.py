"""The official formats of published data sets, as they come out of their archives."""
