"""Django's PostgreSQL backend for tests: flushing passes the append-only triggers."""
