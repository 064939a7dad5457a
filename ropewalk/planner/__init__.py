"""Cost model, search, bound, price: call graph, cluster and workload in, plan and proof out. No torch."""
