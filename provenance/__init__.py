"""Where AI training data came from."""
