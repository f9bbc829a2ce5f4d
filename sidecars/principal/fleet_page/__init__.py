"""The fleet on one page: what is recorded for it while events pass, and how it is shown, searched and kept up to date."""
