"""The search: the problem as arrays, tempering over plans, the bound, branch and bound, and what is compared with."""
