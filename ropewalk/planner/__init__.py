"""Cost model, simulator, search, bound: call graph + cluster + workload in, plan out; price and memory bills. No torch."""
