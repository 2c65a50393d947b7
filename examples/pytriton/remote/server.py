"""Serves models that other scripts of this machine attach. It has none itself."""

import os

from pytriton.triton import Triton, TritonSecurityConfig

# The scripts that attach models have to know the token.
security = TritonSecurityConfig(access_token=os.environ.get("ACCESS_TOKEN", "let-me-in"))

with Triton(security_config=security) as triton:
    triton.serve()
