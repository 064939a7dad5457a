"""GPU-hours, days and money of a job by counting; published runs and rules of thumb held against the count."""
