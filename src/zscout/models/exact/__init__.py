"""Exact ψ of finite worlds."""
