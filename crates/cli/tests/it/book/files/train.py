"""Stands in for a training of the reader's own: takes any options, prints a loss, and leaves a model behind. One with
`--model` goes on until somebody ends it."""

import itertools
import os
import sys
import time

words = " ".join(sys.argv[1:])
loss = 0.25 + (sum(words.encode()) % 100) / 400
for epoch in itertools.count(1) if "--model" in sys.argv else range(1, 4):
    print(f"epoch {epoch}: loss {loss / epoch:.4f}", flush=True)
    time.sleep(0.02)
print(f"final loss: {loss / 3:.4f}")
folder = os.environ.get("NEXUS_RESULTS_DIR")
if folder and os.path.isdir(folder):
    with open(os.path.join(folder, "model.txt"), "w") as file:
        file.write(words + "\n")
