"""Read and curate text: rows to records, splits, the order of an epoch, and the statistics of results."""
