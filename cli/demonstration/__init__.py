"""What `tiphys demo` shows: three clusters inside one process, and our own programs between them."""
