"""Libraries that call or train a model (Lightning, accelerate, skorch, tensordict, captum, Lion), metrics, losses."""

from __future__ import annotations

import logging
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.ecosystem.program import Built, Compile, integers, normal, program, uniform


def classifier() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.LayerNorm(128), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def batches(n: int, count: int = 16) -> dict[str, Tensor]:
    return {"x": normal(n, 32 * count, 64), "y": integers(n, 10, 32 * count)}


def lightning_module() -> Any:
    import pytorch_lightning as pl

    class Classifier(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = classifier()

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            x, y = batch
            return F.cross_entropy(self(x), y)

        def predict_step(self, batch: Any, batch_idx: int) -> Tensor:
            return self(batch[0]).softmax(-1)

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    return Classifier()


def trainer() -> Any:
    import pytorch_lightning as pl

    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    return pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def loader(x: Tensor, y: Tensor) -> Any:
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32)


@program("pytorch-lightning", "`Trainer.fit` of a compiled module, one epoch of 16 batches", trains=True)
def lightning_fit(compile: Compile) -> Built:
    module = lightning_module()
    compiled = compile(module)

    def call(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        trainer().fit(compiled, loader(x, y))
        return {name: p.detach() for name, p in module.named_parameters()}

    return Built(call, batches, (module,))


@program("pytorch-lightning", "`Trainer.predict` of a compiled module, 16 batches")
def lightning_predict(compile: Compile) -> Built:
    module = lightning_module()
    compiled = compile(module)
    return Built(lambda x, y: trainer().predict(compiled, loader(x, y)), batches, (module,))


@program("accelerate", "training loop with `Accelerator.prepare`, model compiled before, SGD", trains=True)
def accelerate_loop(compile: Compile) -> Built:
    from accelerate import Accelerator

    model = classifier()
    accelerator = Accelerator(cpu=True)
    compiled, optimizer = accelerator.prepare(compile(model), torch.optim.SGD(model.parameters(), lr=0.1))

    def call(x: Tensor, y: Tensor) -> list[Tensor]:
        losses = []
        for inputs, labels in loader(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(compiled(inputs), labels)
            accelerator.backward(loss)
            optimizer.step()
            losses.append(loss)
        return losses

    return Built(call, lambda n: batches(n, 4), (model,))


@program("accelerate", "a prepared model, compiled afterwards, inference")
def accelerate_inference(compile: Compile) -> Built:
    from accelerate import Accelerator

    model = classifier().eval()
    prepared = compile(Accelerator(cpu=True).prepare(model))
    return Built(torch.no_grad()(lambda x, y: prepared(x)), batches, (model,))


@program("skorch", "`predict_proba` of a `NeuralNetClassifier` with a compiled module")
def skorch_predict(compile: Compile) -> Built:
    from skorch import NeuralNetClassifier

    model = classifier()
    net = NeuralNetClassifier(compile(model), criterion=nn.CrossEntropyLoss, train_split=None, verbose=0)
    net.initialize()

    def call(x: Tensor, y: Tensor) -> Tensor:
        return torch.from_numpy(net.predict_proba(x))

    return Built(call, batches, (model,))


@program("tensordict", "`TensorDictSequential`: two modules over one dictionary")
def tensordict_sequence(compile: Compile) -> Built:
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    model = TensorDictSequential(
        TensorDictModule(nn.Linear(16, 64), in_keys=["x"], out_keys=["hidden"]),
        TensorDictModule(nn.Sequential(nn.Tanh(), nn.Linear(64, 4)), in_keys=["hidden"], out_keys=["y"]),
    ).eval()
    compiled = compile(model)

    @torch.no_grad()
    def call(x: Tensor) -> dict[str, Tensor]:
        found = compiled(TensorDict({"x": x}, batch_size=[x.shape[0]]))
        return {key: found[key] for key in ("hidden", "y")}

    return Built(call, lambda n: {"x": normal(n, 128, 16)}, (model,))


@program("torchmetrics", "functional accuracy, F1 and AUROC, compiled")
def functional_metrics(compile: Compile) -> Built:
    from torchmetrics.functional.classification import (
        multiclass_accuracy,
        multiclass_auroc,
        multiclass_f1_score,
    )

    @compile
    def measured(scores: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        return (
            multiclass_accuracy(scores, target, num_classes=5, validate_args=False),
            multiclass_f1_score(scores, target, num_classes=5, validate_args=False),
            multiclass_auroc(scores, target, num_classes=5, thresholds=20, validate_args=False),
        )

    return Built(measured, lambda n: {"scores": uniform(n, 500, 5).softmax(-1), "target": integers(n, 5, 500)})


@program("torchmetrics", "`MetricCollection` with compiled metrics, updated and computed")
def metric_collection(compile: Compile) -> Built:
    from torchmetrics import MeanAbsoluteError, MeanSquaredError, R2Score

    metrics = [compile(metric) for metric in (MeanSquaredError(), MeanAbsoluteError(), R2Score())]

    def call(predicted: Tensor, target: Tensor) -> list[Tensor]:
        found = []
        for metric in metrics:
            metric.reset()
            for part in range(4):
                found.append(metric(predicted[part], target[part]))
            found.append(metric.compute())
        return found

    return Built(call, lambda n: {"predicted": normal(n, 4, 256), "target": normal(n + 1, 4, 256)})


@program("pytorch-metric-learning", "`TripletMarginLoss` and `NTXentLoss` of embeddings")
def metric_losses(compile: Compile) -> Built:
    from pytorch_metric_learning.losses import NTXentLoss, TripletMarginLoss

    triplet, contrastive = TripletMarginLoss(), NTXentLoss()

    @compile
    def loss(embeddings: Tensor, labels: Tensor) -> Tensor:
        return triplet(embeddings, labels) + contrastive(embeddings, labels)

    return Built(loss, lambda n: {"embeddings": normal(n, 64, 32), "labels": torch.arange(64) % 8})


@program("captum", "integrated gradients of a compiled classifier", trains=True)
def integrated_gradients(compile: Compile) -> Built:
    from captum.attr import IntegratedGradients

    model = classifier().eval()
    method = IntegratedGradients(compile(model))

    def call(x: Tensor) -> tuple[Tensor, ...]:
        return method.attribute(x, target=3, n_steps=16, return_convergence_delta=True)

    return Built(call, lambda n: {"x": normal(n, 8, 64)}, (model,))


@program("lion-pytorch", "training step of a classifier with `Lion`", trains=True)
def lion(compile: Compile) -> Built:
    from lion_pytorch import Lion

    model = classifier()
    compiled = compile(model)
    optimizer = Lion(model.parameters(), lr=1e-4, weight_decay=1e-2)

    def call(x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(compiled(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return Built(call, lambda n: batches(n, 2), (model,))
