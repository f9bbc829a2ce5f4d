"""What `tiphys explain` answers."""
