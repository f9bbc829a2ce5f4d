"""What an operator does about agents."""
