"""argocd-agent's protocol as bytes and connections: messages, events, identity, tokens, streams."""
