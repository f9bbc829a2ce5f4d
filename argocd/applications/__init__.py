"""What an Application and an ApplicationSet are to Argo CD."""
