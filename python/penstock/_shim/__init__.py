"""`penstock shim`: runs programs that import another product, with Penstock in its place."""
