"""Instructions of one request, counted by callgrind."""
