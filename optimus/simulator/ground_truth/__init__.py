"""What is true in the simulated config: the testbed, nine job types, their speed and their loss.

Nothing here imports the models that have to find it. Every constant names its source or its reason,
and none was chosen by looking at a policy's result (design note 0007). [O] is Optimus (EuroSys
2018).
"""
