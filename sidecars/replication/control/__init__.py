"""Who of a pair is active: what a start decides, an operator's words, the fence at the API server."""
