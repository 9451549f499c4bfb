"""The official conformance suite in the test cluster."""
