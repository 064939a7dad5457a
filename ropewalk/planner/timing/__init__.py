"""What a call takes on its mesh: one device and its links, one layer, and the calls made of layers."""
