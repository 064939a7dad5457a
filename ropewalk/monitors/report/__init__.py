"""From run folders to one self-contained page; reads files only, so it works after a crash."""
