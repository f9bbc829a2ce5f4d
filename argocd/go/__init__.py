"""What Go's standard library and the libraries that Argo CD uses make of a text."""
