"""What planning needs of a run's name, which belongs to the records (`sweeper.store.identity`)."""

from sweeper.store.identity import NOT_IN_IDENTITY, digest_of, identity, run_id

__all__ = ["NOT_IN_IDENTITY", "digest_of", "identity", "run_id"]
