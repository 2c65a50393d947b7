"""Parts of `inference_client`."""
