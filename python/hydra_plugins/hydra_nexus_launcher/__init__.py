"""`hydra/launcher=nexus`: the runs of a multirun as jobs of nexus. Hydra finds what is here by itself."""
