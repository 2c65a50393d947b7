# For 200 clients at once: what waits while a forest computes is the next call, which costs little more than one row.

from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

from penstock import Batching, Tensor, model

forest = RandomForestRegressor(random_state=0).fit(*load_diabetes(return_X_y=True))
row, progression = Tensor("row", float, [10]), Tensor("progression", float)

diabetes = model(forest.predict, name="diabetes", inputs=[row], outputs=[progression], batching=Batching(max_size=200))
