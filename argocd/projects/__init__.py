"""What an AppProject is to Argo CD."""
