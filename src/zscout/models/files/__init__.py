"""Models as files: save, load, hub, ONNX."""
