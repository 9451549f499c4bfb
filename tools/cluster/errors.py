"""What can go wrong with a cluster."""


class ClusterError(Exception):
    """The cluster can't do what was asked; the message says why and what to do."""
