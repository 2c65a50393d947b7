"""REST routes: authentication, options, links, webhooks and the request log."""
