"""PyTorch Geometric."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.ecosystem.program import Built, Compile, integers, normal, program


def graph(n: int, nodes: int = 500, edges: int = 3000) -> dict[str, Tensor]:
    return {"x": normal(n, nodes, 32), "edge_index": integers(n, nodes, 2, edges)}


@program("torch-geometric", "two `GCNConv` layers on a graph of 500 nodes")
def gcn(compile: Compile) -> Built:
    from torch_geometric.nn import GCNConv

    class GCN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = GCNConv(32, 64), GCNConv(64, 7)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            x = self.conv1(x, edge_index)
            x = F.relu(x)
            x = F.dropout(x, training=self.training)
            x = self.conv2(x, edge_index)
            return F.log_softmax(x, dim=1)

    model = GCN().eval()
    compiled = compile(model)
    return Built(torch.no_grad()(lambda **given: compiled(**given)), graph, (model,))


@program("torch-geometric", "`GAT` model, four heads")
def gat(compile: Compile) -> Built:
    from torch_geometric.nn import GAT

    model = GAT(32, 64, num_layers=2, out_channels=7, heads=4).eval()
    compiled = compile(model)
    return Built(torch.no_grad()(lambda **given: compiled(**given)), graph, (model,))


@program("torch-geometric", "`GraphConv` classifier of a batch of 16 graphs, mean pooling")
def graph_classifier(compile: Compile) -> Built:
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import GraphConv, global_mean_pool

    class GNN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2, self.conv3 = GraphConv(32, 64), GraphConv(64, 64), GraphConv(64, 64)
            self.lin = nn.Linear(64, 3)

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            x = self.conv1(x, edge_index).relu()
            x = self.conv2(x, edge_index).relu()
            x = self.conv3(x, edge_index)
            x = global_mean_pool(x, batch)
            x = F.dropout(x, p=0.5, training=self.training)
            return self.lin(x)

    model = GNN().eval()
    compiled = compile(model)

    @torch.no_grad()
    def call(x: Tensor, edge_index: Tensor) -> Tensor:
        data: Any = Batch.from_data_list(
            [Data(x=x[i * 30 : i * 30 + 30], edge_index=edge_index[:, i * 90 : i * 90 + 90] % 30) for i in range(16)]
        )
        return compiled(data.x, data.edge_index, data.batch)

    return Built(call, graph, (model,))


@program("torch-geometric", "`GCNConv` training step, Adam", trains=True)
def gcn_training(compile: Compile) -> Built:
    from torch_geometric.nn import GCN

    model = GCN(32, 64, num_layers=2, out_channels=7)
    compiled = compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    def call(x: Tensor, edge_index: Tensor) -> Tensor:
        optimizer.zero_grad()
        out = compiled(x, edge_index)
        loss = F.cross_entropy(out[:100], torch.arange(100) % 7)
        loss.backward()
        optimizer.step()
        return loss

    return Built(call, graph, (model,))
