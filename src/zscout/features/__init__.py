"""Features φ of finite worlds."""

from zscout.features.clusters import grid_clusters, temporal_clusters
from zscout.features.encoding import decode, encode
from zscout.features.laplacian import eigenvalues, graph_laplacian, laplacian, whole_dim

__all__ = [
    "decode",
    "eigenvalues",
    "encode",
    "graph_laplacian",
    "grid_clusters",
    "laplacian",
    "temporal_clusters",
    "whole_dim",
]
