"""Models as judges: what they are asked, how their words become scores, who is asked, and what is remembered."""
