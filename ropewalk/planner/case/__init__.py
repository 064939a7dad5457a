"""What is planned, from files and names: clusters, models, workloads, call graphs, the space of plans."""
