"""Made by `make protos` from ../protos: change those."""
