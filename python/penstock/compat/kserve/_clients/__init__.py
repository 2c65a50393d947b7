"""The parts of `inference_client`."""
