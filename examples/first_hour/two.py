# Two models in one app: the species of a flower, and how usual it is. Each has its own queue and its own batches.

from sklearn.datasets import load_iris
from sklearn.ensemble import IsolationForest
from sklearn.svm import SVC

from penstock import Batching, Tensor, model

data, target = load_iris(return_X_y=True)
options = {"inputs": [Tensor("flower", float, [4])], "batching": Batching(max_size=64)}

species = model(SVC().fit(data, target).predict, name="species", outputs=[Tensor("species", int)], **options)
usual = model(IsolationForest().fit(data).score_samples, name="usual", outputs=[Tensor("score", float)], **options)
