"""What runs on the node of the test cluster."""
