"""Vesta beside OpenVINO and ONNX Runtime: `make bench-peers`, see bench/peers/bench.py."""
