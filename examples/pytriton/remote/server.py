"""Server without models, for models that other scripts of this machine attach."""

import os

from pytriton.triton import Triton, TritonSecurityConfig

# The scripts that attach models need this token.
security = TritonSecurityConfig(access_token=os.environ.get("ACCESS_TOKEN", "let-me-in"))

with Triton(security_config=security) as triton:
    triton.serve()
