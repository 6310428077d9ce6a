"""Both processes beside a training operator with a webhook."""
