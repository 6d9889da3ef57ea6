"""Two pieces to a pose: read, sample, propose, finish, verify, answer."""
