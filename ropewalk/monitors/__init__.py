"""What a run shows of itself: metric sinks, health rules, timeline, kept samples, the report page."""
