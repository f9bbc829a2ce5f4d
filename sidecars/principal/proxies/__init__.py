"""What of the principal the proxies ask: whose an Application is, who may come in, who is active."""
