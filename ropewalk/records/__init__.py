"""Plain data that crosses a boundary, and its versioned file form. Imports nothing of ours."""
